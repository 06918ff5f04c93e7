//! Redaction: known secrets, and tokens that look like secrets, never reach the model, a log or the
//! ledger. Deliberately not here: where secrets come from, and whether a text may be shown at all.

mod known;
mod patterns;
mod randomness;

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

use parking_lot::RwLock;

use serde_json::{Map, Value};

use self::known::KnownSecrets;
use crate::vault::{MIN_SECRET_CHARS, Vault};

/// Replaces secrets in texts by markers that name the secret.
///
/// - `[secret:NAME]` for a known value, also in base64, in hexadecimal, percent-encoded or as JSON
///   escapes it. `[redacted:KIND]` for a value in the format of a key, and for a random-looking
///   value that is assigned to a name such as `password`.
///
/// When in doubt, the redactor leaves the text alone: a model edits what it reads, so a wrong
/// marker would be written back into a file. Redacting twice changes nothing.
///
/// Cloning is cheap, and so is construction: the search tables are built on first use.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Arc<KnownSecrets>,
    vault_secrets: Option<Arc<VaultSecrets>>,
}

/// Secrets of a vault, which become known while the program runs.
struct VaultSecrets {
    vault: Arc<dyn Vault>,
    /// The secrets known at this version of the vault.
    seen: RwLock<(u64, Arc<KnownSecrets>)>,
}

impl Redactor {
    /// Creates a redactor for these `(name, value)` pairs and for all token patterns.
    ///
    /// Values shorter than six characters are ignored: they would match in ordinary text. White
    /// space around a value does not belong to it.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let secrets = secrets
            .into_iter()
            .filter(|(_, value)| value.trim().chars().count() >= MIN_SECRET_CHARS)
            .collect();
        Self { known: Arc::new(KnownSecrets::new(secrets)), vault_secrets: None }
    }

    /// Also redacts the secrets that the vault knows at the time of each redaction. The vault is
    /// not asked before that.
    #[must_use]
    pub fn with_vault(mut self, vault: Arc<dyn Vault>) -> Self {
        let seen = RwLock::new((0, self.known.clone()));
        self.vault_secrets = Some(Arc::new(VaultSecrets { vault, seen }));
        self
    }

    /// Redacts a text that arrives in pieces. Text that may be the beginning of a known secret is
    /// held back until it is certain.
    pub(crate) fn stream(&self) -> StreamRedactor {
        StreamRedactor { redactor: self.clone(), held: String::new() }
    }

    /// Returns the text without its secrets; borrowed if there are none.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.replace_known(text) {
            Cow::Borrowed(text) => patterns::replace(text),
            Cow::Owned(text) => Cow::Owned(patterns::replace(&text).into_owned()),
        }
    }

    /// Redacts all strings in a value. A member's key counts as the name that its string is
    /// assigned to. The key itself changes only if it contains a known secret. Numbers stay.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(redacted) = self.text(text) {
                    *text = redacted;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => self.members(members),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn members(&self, members: &mut Map<String, Value>) {
        for (key, value) in members.iter_mut() {
            self.value(value);
            if let Value::String(text) = value
                && let Some(kind) = patterns::assigned_kind(key, text)
            {
                *text = marker(kind);
            }
        }
        if members.keys().any(|key| matches!(self.replace_known(key), Cow::Owned(_))) {
            let redacted = std::mem::take(members).into_iter();
            *members =
                redacted.map(|(key, value)| (self.replace_known(&key).into(), value)).collect();
        }
    }

    fn replace_known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        // Most texts of a call are short words like `ok` that cannot contain a secret, so the vault
        // is not asked.
        if text.len() < MIN_SECRET_CHARS { Cow::Borrowed(text) } else { self.known().replace(text) }
    }

    /// The secrets known now.
    fn known(&self) -> Arc<KnownSecrets> {
        let vault_secrets =
            self.vault_secrets.as_ref().and_then(|vault_secrets| vault_secrets.now(&self.known));
        vault_secrets.unwrap_or_else(|| self.known.clone())
    }
}

impl fmt::Debug for Redactor {
    /// Counts the secrets only: a derived impl would print them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("n_secrets", &self.known.len()).finish()
    }
}

impl VaultSecrets {
    /// The initial secrets and those of the vault; `None` while the vault has none. A call shows a
    /// dozen texts, and threads that take the same lock for each of them would delay each other.
    fn now(&self, first: &KnownSecrets) -> Option<Arc<KnownSecrets>> {
        let version = self.vault.version();
        if version == 0 {
            return None;
        }
        let seen = self.seen.read().clone();
        if seen.0 == version {
            return Some(seen.1);
        }
        let known = Arc::new(first.with(self.vault.known()));
        let mut seen = self.seen.write();
        // Another thread may have stored a later version.
        if seen.0 < version {
            *seen = (version, known);
        }
        Some(seen.1.clone())
    }
}

/// Redacts a text that arrives in pieces.
pub(crate) struct StreamRedactor {
    redactor: Redactor,
    held: String,
}

impl StreamRedactor {
    /// Adds a piece and returns the text that can be shown.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let text = std::mem::take(&mut self.held) + text;
        let (certain, held) = text.split_at(text.len() - self.redactor.known().unfinished(&text));
        held.clone_into(&mut self.held);
        self.redactor.text(certain).into_owned()
    }

    /// Returns the rest at the end of the text.
    pub(crate) fn finish(&mut self) -> String {
        self.redactor.text(&std::mem::take(&mut self.held)).into_owned()
    }
}

fn marker(kind: &str) -> String {
    format!("[redacted:{kind}]")
}

/// Copies a text only when something in it is replaced.
struct Rewrite<'a> {
    text: &'a str,
    out: String,
    /// The end of the part of `text` that is in `out` or replaced.
    done: usize,
}

impl<'a> Rewrite<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, out: String::new(), done: 0 }
    }

    fn replace(&mut self, range: Range<usize>, marker: &str) {
        let kept = self.text.get(self.done..range.start);
        self.out.push_str(kept.expect("ranges ascend and end beside ASCII or a whole pattern"));
        self.out.push_str(marker);
        self.done = range.end;
    }

    fn finish(mut self) -> Cow<'a, str> {
        if self.done == 0 {
            return Cow::Borrowed(self.text);
        }
        let (_, rest) = self.text.split_at(self.done);
        self.out.push_str(rest);
        Cow::Owned(self.out)
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use proptest::prelude::*;
    use serde_json::json;

    use super::{known::forms, patterns::KEY_FORMATS, *};

    const HEX: &str = "a8f5f167f44f4964e6c998dee827110c";
    const KEY_LINE: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";

    #[track_caller]
    fn check(text: &str, redacted: &str) {
        assert_eq!(Redactor::default().text(text), redacted);
    }

    #[track_caller]
    fn check_untouched(text: &str) {
        assert!(matches!(Redactor::default().text(text), Cow::Borrowed(_)), "{text}");
        let mut value = json!([text]);
        Redactor::default().value(&mut value);
        assert_eq!(value, json!([text]));
    }

    fn knowing(secrets: &[(&str, &str)]) -> Redactor {
        Redactor::new(secrets.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())))
    }

    #[test]
    fn known_values_are_found_in_every_form() {
        let redactor =
            knowing(&[("DB", "p@ss/wörd\"1\n"), ("SHORT", "12345"), ("LONG", "p@ss/wörd\"1-2")]);
        for form in ["p@ss/wörd\"1", "p@ss/wörd\\\"1", "cEBzcy93w7ZyZCIx", "p%40ss%2fw%c3%b6rd%221"]
        {
            assert_eq!(redactor.text(&format!("é{form}é 12345")), "é[secret:DB]é 12345", "{form}");
        }
        assert_eq!(redactor.text("p@ss/wörd\"1-2p@ss/wörd\"1"), "[secret:LONG][secret:DB]");
        assert_eq!(redactor.text("cEBzcy93w7ZyZCIxLTI="), "[secret:LONG]");
        assert_eq!(redactor.text("cEBzcy93w7ZyZCIxLTI"), "[secret:LONG]");
    }

    #[test]
    fn known_values_are_found_as_programs_write_them() {
        let value = "tok-0123456789abcdefghij+/x";
        let redactor = knowing(&[("KEY", value)]);
        let encode = |text: &str| BASE64_STANDARD.encode(text);
        for name in ["", "x", "me", "you"] {
            let basic = encode(&format!("{name}:{value}"));
            let redacted = redactor.text(&basic);
            assert!(redacted.contains("[secret:KEY]") && redacted.len() <= 24, "{redacted}");
        }
        let urlsafe = encode(value).replace('+', "-").replace('/', "_");
        assert_eq!(redactor.text(&urlsafe), "[secret:KEY]");
        let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(redactor.text(&hex), "[secret:KEY]");
        let long = "a1B2".repeat(40);
        let encoded = encode(&long);
        let lines: Vec<_> = encoded.as_bytes().chunks(76).map(String::from_utf8_lossy).collect();
        assert_eq!(knowing(&[("LONG", &long)]).text(&lines.join("\n")), "[secret:LONG]");
    }

    /// A vault that remembers every value it is given.
    #[derive(Debug, Default)]
    struct Growing(parking_lot::Mutex<Vec<(String, String)>>);

    impl Growing {
        fn set(&self, name: &str, value: &str) {
            self.0.lock().push((name.to_owned(), value.to_owned()));
        }
    }

    impl Vault for Growing {
        fn find(&self, _name: &str) -> Result<Option<crate::Secret>, crate::ToolError> {
            Ok(None)
        }

        fn version(&self) -> u64 {
            self.0.lock().len() as u64
        }

        fn known(&self) -> Vec<(String, String)> {
            self.0.lock().clone()
        }
    }

    #[test]
    fn new_secrets_of_the_vault_are_redacted_from_then_on() {
        let vault = Arc::new(Growing::default());
        let redactor = knowing(&[("PW", "hunter22")]).with_vault(vault.clone());
        let text = "hunter22 hunter33";
        assert_eq!(redactor.text(text), "[secret:PW] hunter33");
        let earlier = redactor.clone();
        vault.set("NEW", "hunter33");
        for redactor in [&redactor, &earlier] {
            assert_eq!(redactor.text(text), "[secret:PW] [secret:NEW]");
        }
        let mut value = json!({"a": "hunter33", "hunter33": ["x"]});
        redactor.value(&mut value);
        assert_eq!(value, json!({"a": "[secret:NEW]", "[secret:NEW]": ["x"]}));
    }

    #[test]
    fn a_secret_in_pieces_is_redacted_and_the_rest_is_not_lost() {
        let redactor = knowing(&[("PW", "hunter22")]);
        let mut pieces = redactor.stream();
        assert_eq!(pieces.push("it is hun"), "it is ");
        assert_eq!(pieces.push("ter"), "");
        assert_eq!(pieces.push("22 and hunt"), "[secret:PW] and ");
        assert_eq!(pieces.push("ing é"), "hunting é");
        assert_eq!(pieces.push("h"), "");
        assert_eq!(pieces.finish(), "h");
        assert_eq!(pieces.finish(), "");
    }

    #[test]
    fn markers_do_not_reveal_secrets() {
        let redactor = knowing(&[("my hunter22", "hunter22"), ("a b", "password"), ("", "secret")]);
        assert_eq!(redactor.text("hunter22"), "[secret:1]");
        let redacted = redactor.text("password secret, s://a:b@c").into_owned();
        assert_eq!(redacted, "[secret:a_b] [secret:3], s://a:[redacted:url-password]@c");
        assert_eq!(redactor.text(&redacted), redacted);
        assert_eq!(format!("{redactor:?}"), "Redactor { n_secrets: 3 }");
    }

    #[test]
    fn values_are_redacted_in_place() {
        let mut value = json!({"a": ["x hunter22", 1], "hunter22": null, "dbPassword": HEX,
            "nextPageToken": HEX, "commit": HEX, "token": format!("{HEX} of {HEX}")});
        knowing(&[("PW", "hunter22")]).value(&mut value);
        assert_eq!(
            value,
            json!({"a": ["x [secret:PW]", 1], "[secret:PW]": null, "dbPassword": "[redacted:password]",
                "nextPageToken": HEX, "commit": HEX, "token": format!("{HEX} of {HEX}")})
        );
    }

    #[test]
    fn keys_are_recognized_by_their_format() {
        for shape in KEY_FORMATS {
            let body = "A1B2".repeat(20);
            let (body, _) = body.split_at(shape.min_chars);
            let marker = marker(shape.kind);
            check(&format!("{}{body}", shape.prefix), &marker);
            check(&format!("é{}{body}. end", shape.prefix), &format!("é{marker}. end"));
            check_untouched(&format!("x{}{body}", shape.prefix));
            let (short, _) = body.split_at(shape.min_chars - 1);
            check_untouched(&format!("{}{short}", shape.prefix));
        }
        check(r"a\nAKIAIOSFODNN7EXAMPLE\n", r"a\n[redacted:aws-key]\n");
        check("eyJhbGciOi.eyJzdWIiOi.abcd-EF_g.x", "[redacted:jwt].x");
    }

    #[test]
    fn private_keys_are_redacted_as_a_whole() {
        let key = |lines: &str| format!("a\n-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINE}\n{lines}");
        check(&key("x9+/=\n-----END RSA PRIVATE KEY-----\nb"), "a\n[redacted:private-key]\nb");
        check(&key("x9-----END RSA PRIVATE KEY-----\", b"), "a\n[redacted:private-key]\", b");
        check(
            &key(&key("x9-----END EC PRIVATE KEY----- B")).replace("\na\n-", "\n-----END X------"),
            "a\n[redacted:private-key][redacted:private-key] B",
        );
        check(&key("Proc-Type: 4,ENCRYPTED"), "a\n[redacted:private-key]");
        check(&key("-----E"), "a\n[redacted:private-key]");
        check_untouched(&key("").replace("PRIVATE", "PUBLIC"));
        check_untouched("if pem.starts_with(\"-----BEGIN PRIVATE KEY-----\") { let x = 1; }");
        check_untouched(
            "A file with -----BEGIN PRIVATE KEY----- as its first line, authentication",
        );
        check_untouched("-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----");
    }

    #[test]
    fn assigned_values_are_judged_by_name_and_randomness() {
        check(&format!("password={HEX}"), "password=[redacted:password]");
        check(&format!("DB_PASSWORD = '{HEX}'"), "DB_PASSWORD = '[redacted:password]'");
        check(
            &format!("{{\"githubToken\": \"{HEX}\"}}"),
            "{\"githubToken\": \"[redacted:token]\"}",
        );
        check(&format!(r#"\"api-key\":\"{HEX}\""#), r#"\"api-key\":\"[redacted:api_key]\""#);
        check(
            &format!(":client_secret => \"{HEX}\""),
            ":client_secret => \"[redacted:client_secret]\"",
        );
        check("x-api-key: q7Rt-Zp2LmX9vK4sW8dY", "x-api-key: [redacted:api_key]");
        check(
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "aws_secret_access_key = [redacted:access_key]",
        );
        check("PASSWD=Sup3rS3cretPassw0rd4u", "PASSWD=[redacted:passwd]");
        check(&format!("https://x.y/?token={HEX}&a=b"), "https://x.y/?token=[redacted:token]&a=b");
    }

    #[test]
    fn headers_and_urls_lose_their_credentials() {
        check(
            "curl -H 'Authorization: Bearer abcdefghijklmnop1' -v",
            "curl -H 'Authorization: Bearer [redacted:authorization]' -v",
        );
        check(&format!("authorization: {HEX}"), "authorization: [redacted:authorization]");
        check("postgres://me:x@db:5432/a", "postgres://me:[redacted:url-password]@db:5432/a");
        check("a://%40:%40x@h", "a://%40:[redacted:url-password]@h");
        check("redis://:p@ss:1@h", "redis://:[redacted:url-password]@h");
        check(
            "https://AKIAIOSFODNN7EXAMPLE:x[1]@h https://[secret:ME]:x@h",
            "https://[redacted:aws-key]:[redacted:url-password]@h https://[secret:ME]:[redacted:url-password]@h",
        );
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        let corpus = [
            "let token = parse_next_token(input);",
            "let token = parse_v2_header_value;",
            "const token: Token2 = oauth2TokenFromRequest;",
            "auth: config.auth.oauth2.accessTokenValue,",
            "password: string",
            "password: z.string().min(8).max(1024),",
            "secret = get_secret(\"x\")",
            "secret = sha256_hmac_v1ABCdEfG9(key, 17)",
            "token_count=12345, max_tokens: 4096, \"total_tokens\": 1234567890123456",
            "Next page token: eav1OzQB0OM8rLdGXOEsyQWSG token: 550e8400-e29b-41d4-a716-446655440000",
            "secret: projects/my-app-1/secrets/db-pass-2",
            "secret: my-app-secret-v2-abcdef12",
            "password=YOUR_PASSWORD_HERE_123",
            "\"password\": \"auth.login.password2.placeholder\"",
            "token=/run/secrets/app1/v2/token.json",
            "API_KEY=${API_KEY_2_FROM_VAULT}",
            "author: Jane D03 <jane@example.org>; authors = [\"a1b2c3d4e5f6a7b8c9\"]",
            "commit a8f5f167f44f4964e6c998dee827110ca8f5f167",
            "checksum = \"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"",
            "\"integrity\": \"sha512-K1A6z8tS3XsmCMM86xoWdn7Fkdn9m6RSVtocUrJYIwZnFVkng/PvkEoWtOWm==\",",
            "github.com/a/b v1.2.3 h1:K1A6z8tS3XsmCMM86xoWdn7Fkdn9m6RSVtocUrJYIwZ=",
            "uses: docker://alpine:3.18@sha256:9f86d081884c7d659a2feaa0c55ad015",
            "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwA=",
            "format!(\"postgres://{user}:{password}@{host}/db\"), \"http://$U:$P@h\", \"a://%s:%s@h\", http://a:8080/x@y",
            "git@github.com:a/b.git ssh://git@github.com/a mailto:jane@example.org http://h:80,a@b",
            "!function(e,t){e.token=t.a1?n(2):r;var s={auth:i.b2.c3.d4.e5.f6.g7,secret:o+1/2-p};}(x,1)",
            "class=\"sk-loading-indicator-container-primary-2\" AKIA AKIAXX sk-test hf_model npm_config_x",
            "Authorization: Bearer <token>, Authorization: Bearer $TOKEN, Authorization: basic auth",
            "The password: it was changed in 2024-01-02T03:04:05Z, see the secret=garden of auth.",
            "[secret:API_TOKEN] [redacted:token] password=[redacted:password]",
            "eyJhbGciOi.js eyJ.eyJ.eyJ SG.Namespace.Class1 pypi-attestations-0.0.12",
        ];
        for line in corpus {
            check_untouched(line);
        }
        check_untouched(&corpus.join("\n"));
    }

    #[test]
    fn long_hostile_text_takes_linear_time() {
        let scraps = "sk-|password=|SG.|eyJ.|eyJaaaaaaaa.|a://b:|-----BEGIN |auth:\\|sk-ant-.|AKIA/\
            |-----BEGIN PRIVATE KEY-----|token= |ya29.a|[secret:|.";
        for scrap in scraps.split('|') {
            let text = scrap.repeat(200_000 / scrap.len()) + &".".repeat(200_000);
            let _ = Redactor::default().text(&text);
        }
    }

    /// Scraps that meet in every way: of shapes, names, signs, markers and a known secret.
    fn any_text() -> impl Strategy<Value = String> {
        let scraps = "sk-ant-|AKIA|AKIAIOSFODNN7EXAMPLE|ghp_|ya29.|eyJhbGciOi|eyJzdWIiOi|.|-|_|=|: |\"|\
            |password|Token|auth|Authorization|Bearer |\\|[|]|[secret:|[redacted:|://|user:|@|/|\n|$|(|é\
            |hunter22|aHVudGVyMjI=|A1b2C3d4E5f6G7h8J9|parse_next_value|-----END PRIVATE KEY-----";
        let key = format!("-----BEGIN PRIVATE KEY-----\n{KEY_LINE}\n");
        let scraps = scraps.split('|').chain([HEX, &key]).map(str::to_owned).collect::<Vec<_>>();
        let scrap = prop_oneof![9 => prop::sample::select(scraps), 1 => any::<String>()];
        prop::collection::vec(scrap, 0..24).prop_map(|scraps| scraps.concat())
    }

    proptest! {
        #[test]
        fn redacting_twice_changes_nothing(text in any_text()) {
            for redactor in [Redactor::default(), knowing(&[("PW", "hunter22")])] {
                let once = redactor.text(&text).into_owned();
                prop_assert_eq!(redactor.text(&once), once.as_str(), "{}", text);
            }
        }

        #[test]
        fn known_secrets_never_survive(
            secret in r"\S.{4,20}\S", form in 0..24_usize, other in "[a-z]{6,9}",
            before in any_text(), after: String,
        ) {
            let forms = forms(&secret);
            let form = &forms[form % forms.len()];
            let redactor = knowing(&[("A", &secret), ("B", &other)]);
            let redacted = redactor.text(&format!("{before}{form}{other}{after}")).into_owned();
            prop_assert!(!redacted.contains(form) && !redacted.contains(&other), "{}", redacted);
        }

        #[test]
        fn known_secrets_never_survive_in_pieces(
            secret in "[ab]{6,8}", text in "[ab ]{0,40}", cuts in prop::collection::vec(0..6_usize, 0..60),
        ) {
            let redactor = knowing(&[("KEY", &secret)]);
            let mut pieces = redactor.stream();
            let whole = format!("{text}{secret}{text}");
            let (mut shown, mut rest) = (String::new(), whole.as_str());
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                shown += &pieces.push(piece);
                rest = after;
            }
            shown += &pieces.push(rest);
            shown += &pieces.finish();
            prop_assert!(!shown.contains(&secret), "{}", shown);
            prop_assert_eq!(shown, redactor.text(&whole).into_owned());
        }

        #[test]
        fn random_tokens_are_redacted_and_lines_of_hex_stay(token in "([A-Z][a-z0-9][0-9][a-z]){12}", digest in "[0-9a-f]{40,64}") {
            let redacted = Redactor::default().text(&format!("api_key={token}")).into_owned();
            prop_assert_eq!(redacted, "api_key=[redacted:api_key]");
            check_untouched(&format!("commit {digest} {token}"));
        }
    }
}
