//! Characters by name and number: `&eacute;`, `&#233;`, `&#xe9;`. The names of HTML 4 and those that pages use besides; any
//! other name stays as it is written.

use std::borrow::Cow;

/// The text with its entities replaced.
pub(crate) fn decoded(text: &str) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'&', text.as_bytes()) else { return Cow::Borrowed(text) };
    let (before, mut rest) = text.split_at(first);
    let mut out = String::with_capacity(text.len());
    out.push_str(before);
    while let Some(after) = rest.strip_prefix('&') {
        let length = match one(after) {
            Some((character, length)) => {
                out.push(character);
                length
            }
            None => {
                out.push('&');
                0
            }
        };
        let after = after.get(length..).unwrap_or_default();
        let next = memchr::memchr(b'&', after.as_bytes()).unwrap_or(after.len());
        let (plain, remaining) = after.split_at(next);
        out.push_str(plain);
        rest = remaining;
    }
    Cow::Owned(out)
}

/// The character, and how much of what stands behind the `&` it takes.
fn one(text: &str) -> Option<(char, usize)> {
    if let Some(number) = text.strip_prefix('#') {
        return by_number(number).map(|(character, length)| (character, length + 1));
    }
    let length = text.bytes().take(LONGEST + 1).take_while(u8::is_ascii_alphanumeric).count();
    let name = text.get(..length)?;
    let is_ended = text.as_bytes().get(length) == Some(&b';');
    let found = NAMES.binary_search_by(|(known, _, _)| known.cmp(&name)).ok()?;
    let (_, character, may_be_bare) = NAMES.get(found)?;
    // In a query, `&copy=1` is a parameter.
    let is_parameter = text.as_bytes().get(length) == Some(&b'=');
    match is_ended {
        true => Some((*character, length + 1)),
        false => (*may_be_bare && !is_parameter).then_some((*character, length)),
    }
}

fn by_number(text: &str) -> Option<(char, usize)> {
    let (digits, radix, sign) = match text.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16, 1),
        None => (text, 10, 0),
    };
    let length = digits.bytes().take_while(|byte| char::from(*byte).is_digit(radix)).count();
    let number = digits.get(..length).filter(|digits| !digits.is_empty())?;
    let number = u32::from_str_radix(number, radix).unwrap_or(u32::MAX);
    let end = usize::from(digits.as_bytes().get(length) == Some(&b';'));
    Some((character(number), sign + length + end))
}

fn character(number: u32) -> char {
    // What was meant by these numbers is the character of Windows.
    let windows = "\u{20ac}\u{81}\u{201a}\u{192}\u{201e}\u{2026}\u{2020}\u{2021}\u{2c6}\u{2030}\u{160}\u{2039}\u{152}\u{8d}\u{17d}\u{8f}\u{90}\u{2018}\u{2019}\
        \u{201c}\u{201d}\u{2022}\u{2013}\u{2014}\u{2dc}\u{2122}\u{161}\u{203a}\u{153}\u{9d}\u{17e}\u{178}";
    match number {
        0x80..=0x9f => windows.chars().nth(number as usize - 0x80).unwrap_or('\u{fffd}'),
        0 => '\u{fffd}',
        _ => char::from_u32(number).unwrap_or('\u{fffd}'),
    }
}

/// The longest name.
const LONGEST: usize = 14;

/// Sorted by name; and whether pages may leave out the `;`.
#[rustfmt::skip]
static NAMES: [(&str, char, bool); 343] = [
    ("AElig", '\u{c6}', true), ("AMP", '\u{26}', false), ("Aacute", '\u{c1}', true), ("Abreve", '\u{102}', false),
    ("Acirc", '\u{c2}', true), ("Agrave", '\u{c0}', true), ("Alpha", '\u{391}', false), ("Aring", '\u{c5}', true),
    ("Atilde", '\u{c3}', true), ("Auml", '\u{c4}', true), ("Beta", '\u{392}', false), ("COPY", '\u{a9}', false),
    ("Ccaron", '\u{10c}', false), ("Ccedil", '\u{c7}', true), ("Chi", '\u{3a7}', false),
    ("Dagger", '\u{2021}', false), ("Delta", '\u{394}', false), ("ETH", '\u{d0}', true), ("Eacute", '\u{c9}', true),
    ("Ecirc", '\u{ca}', true), ("Egrave", '\u{c8}', true), ("Epsilon", '\u{395}', false), ("Eta", '\u{397}', false),
    ("Euml", '\u{cb}', true), ("GT", '\u{3e}', false), ("Gamma", '\u{393}', false), ("Hat", '\u{5e}', false),
    ("Iacute", '\u{cd}', true), ("Icirc", '\u{ce}', true), ("Igrave", '\u{cc}', true), ("Iota", '\u{399}', false),
    ("Iuml", '\u{cf}', true), ("Kappa", '\u{39a}', false), ("LT", '\u{3c}', false), ("Lambda", '\u{39b}', false),
    ("Lstrok", '\u{141}', false), ("Mu", '\u{39c}', false), ("NewLine", '\u{a}', false),
    ("NoBreak", '\u{2060}', false), ("Ntilde", '\u{d1}', true), ("Nu", '\u{39d}', false), ("OElig", '\u{152}', false),
    ("Oacute", '\u{d3}', true), ("Ocirc", '\u{d4}', true), ("Ograve", '\u{d2}', true), ("Omega", '\u{3a9}', false),
    ("Omicron", '\u{39f}', false), ("Oslash", '\u{d8}', true), ("Otilde", '\u{d5}', true), ("Ouml", '\u{d6}', true),
    ("Phi", '\u{3a6}', false), ("Pi", '\u{3a0}', false), ("Prime", '\u{2033}', false), ("Psi", '\u{3a8}', false),
    ("QUOT", '\u{22}', false), ("REG", '\u{ae}', false), ("Rho", '\u{3a1}', false), ("Scaron", '\u{160}', false),
    ("Scedil", '\u{15e}', false), ("Sigma", '\u{3a3}', false), ("THORN", '\u{de}', true), ("Tab", '\u{9}', false),
    ("Tau", '\u{3a4}', false), ("Theta", '\u{398}', false), ("Uacute", '\u{da}', true), ("Ucirc", '\u{db}', true),
    ("Ugrave", '\u{d9}', true), ("Upsilon", '\u{3a5}', false), ("Uuml", '\u{dc}', true), ("Xi", '\u{39e}', false),
    ("Yacute", '\u{dd}', true), ("Yuml", '\u{178}', false), ("Zcaron", '\u{17d}', false),
    ("ZeroWidthSpace", '\u{200b}', false), ("Zeta", '\u{396}', false), ("aacute", '\u{e1}', true),
    ("abreve", '\u{103}', false), ("acirc", '\u{e2}', true), ("acute", '\u{b4}', true), ("aelig", '\u{e6}', true),
    ("agrave", '\u{e0}', true), ("alefsym", '\u{2135}', false), ("alpha", '\u{3b1}', false), ("amp", '\u{26}', true),
    ("and", '\u{2227}', false), ("ang", '\u{2220}', false), ("aogon", '\u{105}', false), ("apos", '\u{27}', false),
    ("aring", '\u{e5}', true), ("ast", '\u{2a}', false), ("asymp", '\u{2248}', false), ("atilde", '\u{e3}', true),
    ("auml", '\u{e4}', true), ("bdquo", '\u{201e}', false), ("beta", '\u{3b2}', false),
    ("bigstar", '\u{2605}', false), ("block", '\u{2588}', false), ("boxh", '\u{2500}', false),
    ("breve", '\u{2d8}', false), ("brvbar", '\u{a6}', true), ("bsol", '\u{5c}', false), ("bull", '\u{2022}', false),
    ("cacute", '\u{107}', false), ("cap", '\u{2229}', false), ("caron", '\u{2c7}', false),
    ("ccaron", '\u{10d}', false), ("ccedil", '\u{e7}', true), ("cedil", '\u{b8}', true), ("cent", '\u{a2}', true),
    ("check", '\u{2713}', false), ("checkmark", '\u{2713}', false), ("chi", '\u{3c7}', false),
    ("circ", '\u{2c6}', false), ("clubs", '\u{2663}', false), ("colon", '\u{3a}', false), ("comma", '\u{2c}', false),
    ("commat", '\u{40}', false), ("cong", '\u{2245}', false), ("copy", '\u{a9}', true), ("copysr", '\u{2117}', false),
    ("crarr", '\u{21b5}', false), ("cross", '\u{2717}', false), ("cup", '\u{222a}', false),
    ("curren", '\u{a4}', true), ("dArr", '\u{21d3}', false), ("dagger", '\u{2020}', false),
    ("darr", '\u{2193}', false), ("dash", '\u{2010}', false), ("deg", '\u{b0}', true), ("delta", '\u{3b4}', false),
    ("diams", '\u{2666}', false), ("divide", '\u{f7}', true), ("dollar", '\u{24}', false), ("eacute", '\u{e9}', true),
    ("ecaron", '\u{11b}', false), ("ecirc", '\u{ea}', true), ("egrave", '\u{e8}', true), ("empty", '\u{2205}', false),
    ("emsp", '\u{2003}', false), ("ensp", '\u{2002}', false), ("eogon", '\u{119}', false),
    ("epsilon", '\u{3b5}', false), ("equals", '\u{3d}', false), ("equiv", '\u{2261}', false),
    ("eta", '\u{3b7}', false), ("eth", '\u{f0}', true), ("euml", '\u{eb}', true), ("euro", '\u{20ac}', false),
    ("excl", '\u{21}', false), ("exist", '\u{2203}', false), ("fnof", '\u{192}', false),
    ("forall", '\u{2200}', false), ("frac12", '\u{bd}', true), ("frac13", '\u{2153}', false),
    ("frac14", '\u{bc}', true), ("frac18", '\u{215b}', false), ("frac23", '\u{2154}', false),
    ("frac34", '\u{be}', true), ("frasl", '\u{2044}', false), ("gamma", '\u{3b3}', false),
    ("gbreve", '\u{11f}', false), ("ge", '\u{2265}', false), ("grave", '\u{60}', false), ("gt", '\u{3e}', true),
    ("hArr", '\u{21d4}', false), ("hairsp", '\u{200a}', false), ("harr", '\u{2194}', false),
    ("hearts", '\u{2665}', false), ("hellip", '\u{2026}', false), ("horbar", '\u{2015}', false),
    ("hyphen", '\u{2010}', false), ("iacute", '\u{ed}', true), ("icirc", '\u{ee}', true), ("iexcl", '\u{a1}', true),
    ("igrave", '\u{ec}', true), ("image", '\u{2111}', false), ("incare", '\u{2105}', false),
    ("infin", '\u{221e}', false), ("inodot", '\u{131}', false), ("int", '\u{222b}', false),
    ("iota", '\u{3b9}', false), ("iquest", '\u{bf}', true), ("isin", '\u{2208}', false), ("iuml", '\u{ef}', true),
    ("kappa", '\u{3ba}', false), ("lArr", '\u{21d0}', false), ("lambda", '\u{3bb}', false),
    ("lang", '\u{2329}', false), ("laquo", '\u{ab}', true), ("larr", '\u{2190}', false),
    ("larrhk", '\u{21a9}', false), ("lbrace", '\u{7b}', false), ("lbrack", '\u{5b}', false),
    ("lceil", '\u{2308}', false), ("lcub", '\u{7b}', false), ("ldquo", '\u{201c}', false),
    ("ldquor", '\u{201e}', false), ("le", '\u{2264}', false), ("lfloor", '\u{230a}', false),
    ("lowast", '\u{2217}', false), ("lowbar", '\u{5f}', false), ("loz", '\u{25ca}', false), ("lpar", '\u{28}', false),
    ("lrm", '\u{200e}', false), ("lsaquo", '\u{2039}', false), ("lsqb", '\u{5b}', false),
    ("lsquo", '\u{2018}', false), ("lsquor", '\u{201a}', false), ("lstrok", '\u{142}', false), ("lt", '\u{3c}', true),
    ("macr", '\u{af}', true), ("mdash", '\u{2014}', false), ("micro", '\u{b5}', true), ("middot", '\u{b7}', true),
    ("minus", '\u{2212}', false), ("mu", '\u{3bc}', false), ("nabla", '\u{2207}', false),
    ("nacute", '\u{144}', false), ("nbsp", '\u{a0}', true), ("ndash", '\u{2013}', false), ("ne", '\u{2260}', false),
    ("ni", '\u{220b}', false), ("not", '\u{ac}', true), ("notin", '\u{2209}', false), ("nsub", '\u{2284}', false),
    ("ntilde", '\u{f1}', true), ("nu", '\u{3bd}', false), ("num", '\u{23}', false), ("numsp", '\u{2007}', false),
    ("oacute", '\u{f3}', true), ("ocirc", '\u{f4}', true), ("odblac", '\u{151}', false), ("oelig", '\u{153}', false),
    ("ograve", '\u{f2}', true), ("oline", '\u{203e}', false), ("omega", '\u{3c9}', false),
    ("omicron", '\u{3bf}', false), ("oplus", '\u{2295}', false), ("or", '\u{2228}', false), ("ordf", '\u{aa}', true),
    ("ordm", '\u{ba}', true), ("oslash", '\u{f8}', true), ("otilde", '\u{f5}', true), ("otimes", '\u{2297}', false),
    ("ouml", '\u{f6}', true), ("para", '\u{b6}', true), ("part", '\u{2202}', false), ("percnt", '\u{25}', false),
    ("period", '\u{2e}', false), ("permil", '\u{2030}', false), ("perp", '\u{22a5}', false),
    ("phi", '\u{3c6}', false), ("phone", '\u{260e}', false), ("pi", '\u{3c0}', false), ("piv", '\u{3d6}', false),
    ("plus", '\u{2b}', false), ("plusmn", '\u{b1}', true), ("pound", '\u{a3}', true), ("prime", '\u{2032}', false),
    ("prod", '\u{220f}', false), ("prop", '\u{221d}', false), ("psi", '\u{3c8}', false),
    ("puncsp", '\u{2008}', false), ("quest", '\u{3f}', false), ("quot", '\u{22}', true), ("rArr", '\u{21d2}', false),
    ("radic", '\u{221a}', false), ("rang", '\u{232a}', false), ("raquo", '\u{bb}', true), ("rarr", '\u{2192}', false),
    ("rarrw", '\u{219d}', false), ("rbrace", '\u{7d}', false), ("rbrack", '\u{5d}', false),
    ("rcaron", '\u{159}', false), ("rceil", '\u{2309}', false), ("rcub", '\u{7d}', false),
    ("rdquo", '\u{201d}', false), ("real", '\u{211c}', false), ("reg", '\u{ae}', true), ("rfloor", '\u{230b}', false),
    ("rho", '\u{3c1}', false), ("rlm", '\u{200f}', false), ("rpar", '\u{29}', false), ("rsaquo", '\u{203a}', false),
    ("rsqb", '\u{5d}', false), ("rsquo", '\u{2019}', false), ("sacute", '\u{15b}', false),
    ("sbquo", '\u{201a}', false), ("scaron", '\u{161}', false), ("scedil", '\u{15f}', false),
    ("sdot", '\u{22c5}', false), ("sect", '\u{a7}', true), ("semi", '\u{3b}', false), ("shy", '\u{ad}', true),
    ("sigma", '\u{3c3}', false), ("sigmaf", '\u{3c2}', false), ("sim", '\u{223c}', false), ("sol", '\u{2f}', false),
    ("spades", '\u{2660}', false), ("star", '\u{2606}', false), ("starf", '\u{2605}', false),
    ("sub", '\u{2282}', false), ("sube", '\u{2286}', false), ("sum", '\u{2211}', false), ("sup", '\u{2283}', false),
    ("sup1", '\u{b9}', true), ("sup2", '\u{b2}', true), ("sup3", '\u{b3}', true), ("supe", '\u{2287}', false),
    ("szlig", '\u{df}', true), ("tau", '\u{3c4}', false), ("there4", '\u{2234}', false), ("theta", '\u{3b8}', false),
    ("thetasym", '\u{3d1}', false), ("thinsp", '\u{2009}', false), ("thorn", '\u{fe}', true),
    ("tilde", '\u{2dc}', false), ("times", '\u{d7}', true), ("trade", '\u{2122}', false), ("uArr", '\u{21d1}', false),
    ("uacute", '\u{fa}', true), ("uarr", '\u{2191}', false), ("ucirc", '\u{fb}', true), ("udblac", '\u{171}', false),
    ("ugrave", '\u{f9}', true), ("uml", '\u{a8}', true), ("upsih", '\u{3d2}', false), ("upsilon", '\u{3c5}', false),
    ("uuml", '\u{fc}', true), ("verbar", '\u{7c}', false), ("vert", '\u{7c}', false), ("weierp", '\u{2118}', false),
    ("xi", '\u{3be}', false), ("xrarr", '\u{27f6}', false), ("yacute", '\u{fd}', true), ("yen", '\u{a5}', true),
    ("yuml", '\u{ff}', true), ("zacute", '\u{17a}', false), ("zcaron", '\u{17e}', false), ("zdot", '\u{17c}', false),
    ("zeta", '\u{3b6}', false), ("zwj", '\u{200d}', false), ("zwnj", '\u{200c}', false),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        assert!(NAMES.is_sorted_by(|(a, _, _), (b, _, _)| a < b));
    }

    #[test]
    fn characters_come_by_name_and_number() {
        for (text, expected) in [
            ("a &amp; b &lt;c&gt; &quot;d&quot; &apos;", "a & b <c> \"d\" '"),
            ("&eacute;&#233;&#xE9;&#Xe9", "\u{e9}\u{e9}\u{e9}\u{e9}"),
            ("&copy 2024 &nbsp;x", "\u{a9} 2024 \u{a0}x"),
            ("?a=1&copy=2&b=3", "?a=1&copy=2&b=3"),
            ("&unknown; &; & &# &#x; &#99999999999;", "&unknown; &; & &# &#x; \u{fffd}"),
            ("&#147;x&#148; &#0;&#xd800;", "\u{201c}x\u{201d} \u{fffd}\u{fffd}"),
            ("&amp;amp;", "&amp;"),
            ("plain", "plain"),
        ] {
            assert_eq!(decoded(text), expected);
        }
    }
}
