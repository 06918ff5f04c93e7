//! The table of programs: which of their words are files, and which of their options only look.

use super::{is_one_of, options::Valued};

/// What is known of a program.
pub(super) struct Program {
    names: &'static str,
    pub(super) operands: Operands,
    pub(super) valued: Valued,
    pub(super) caution: Caution,
}

/// What the words that are no options stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operands {
    /// No files.
    Words,
    /// Files to read.
    Read,
    /// Files and directories to read with all that is below; the directory of the moment when there are none.
    ReadTree,
    /// A pattern, then files to read.
    PatternThenRead,
    /// A pattern, then directories to read with all that is below.
    PatternThenTree,
    /// A file to read, then one to write.
    ReadOneWriteOne,
    /// Files to write.
    Write,
    /// Something, then files to write.
    WordThenWrite,
    /// Files to read, the last is written.
    CopyToLast,
    /// All are written: what is moved away is gone from its place.
    MoveToLast,
    /// A file to read, then words for the program in it.
    ScriptThenWords,
}

/// When a program only looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caution {
    /// Whatever its options are: none of them writes or runs anything.
    Never,
    /// With these letters and names only, besides those that take a value.
    Only { letters: &'static str, names: &'static str },
    /// It does not only look.
    Always,
}

impl Program {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|program| is_one_of(program.names, name))
    }
}

const fn looks(
    names: &'static str,
    operands: Operands,
    letters: &'static str,
    long: &'static str,
) -> Program {
    Program { names, operands, valued: Valued { letters, names: long }, caution: Caution::Never }
}

const fn careful(
    names: &'static str,
    operands: Operands,
    valued: (&'static str, &'static str),
    allowed: (&'static str, &'static str),
) -> Program {
    Program {
        names,
        operands,
        valued: Valued { letters: valued.0, names: valued.1 },
        caution: Caution::Only { letters: allowed.0, names: allowed.1 },
    }
}

const fn acts(
    names: &'static str,
    operands: Operands,
    letters: &'static str,
    long: &'static str,
) -> Program {
    Program { names, operands, valued: Valued { letters, names: long }, caution: Caution::Always }
}

use Operands::{
    CopyToLast, MoveToLast, PatternThenRead, PatternThenTree, Read, ReadOneWriteOne, ReadTree,
    ScriptThenWords, WordThenWrite, Words, Write,
};

/// The first row with the name counts.
static PROGRAMS: &[Program] = &[
    looks("cat tac rev zcat bzcat xzcat realpath readlink zipinfo", Read, "", ""),
    // The letter for an output file is one of zstd's.
    careful("zstdcat", Read, ("o", ""), ("fkqv", "")),
    looks("nl", Read, "bdfhilnsvw", ""),
    looks("head tail", Read, "ncs", "lines bytes pid sleep-interval"),
    careful("wc", Read, ("", ""), ("clmwL", "bytes chars lines words max-line-length")),
    looks("cut", Read, "bcdf", "bytes characters delimiter fields output-delimiter"),
    looks("paste", Read, "d", "delimiters"),
    looks("comm", Read, "", "output-delimiter"),
    looks("join", Read, "12aejotv", ""),
    looks("fold fmt", Read, "wpg", "width"),
    looks("expand unexpand", Read, "t", "tabs"),
    looks("column", Read, "csoNHREWTlnOrip", "separator output-separator table-columns"),
    looks("uniq", ReadOneWriteOne, "fsw", "skip-fields skip-chars check-chars"),
    looks(
        "diff",
        Read,
        "UCFIxWLSX",
        "exclude label width exclude-from from-file to-file starting-file",
    ),
    looks("cmp", Read, "in", "ignore-initial bytes"),
    looks("stat", Read, "c", "format printf"),
    looks(
        "du",
        ReadTree,
        "dBtX",
        "max-depth block-size threshold exclude exclude-from files0-from",
    ),
    looks("df", Read, "Btx", "block-size type exclude-type"),
    looks("ls dir vdir", Read, "ITw", "ignore tabsize width hide block-size"),
    looks(
        "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum",
        Read,
        "la",
        "length",
    ),
    looks("base64 base32", Read, "w", "wrap"),
    looks("od", Read, "AjNSt", "address-radix skip-bytes read-bytes format"),
    looks("hexdump hd", Read, "ensf", "length skip format format-file"),
    looks("strings", Read, "nteTsU", "bytes radix encoding target output-separator unicode"),
    // Sections with debug information lead to other files.
    careful(
        "readelf",
        Read,
        ("xpR", ""),
        (
            "ahlSgtensruVAdcDIW",
            "all file-header program-headers segments section-headers sections headers symbols syms dyn-syms \
             notes relocs dynamic version-info arch-specific histogram wide",
        ),
    ),
    careful("nm", Read, ("", ""), ("ACDgnpruS", "demangle defined-only undefined-only")),
    careful("objdump", Read, ("jMmb", "section"), ("dDxhtTsrRfpaC", "disassemble demangle")),
    careful("xxd", ReadOneWriteOne, ("cglosn", ""), ("abCeipuE", "")),
    looks("basename dirname", Words, "sz", "suffix"),
    looks(
        "echo printf pwd true false : seq sleep yes tr factor nproc uname arch tty logname",
        Words,
        "",
        "",
    ),
    looks("whoami id groups uptime free lscpu lsblk ps pgrep pstree pidof printenv", Words, "", ""),
    looks("which whereis locale test [ exit return break continue shift", Words, "", ""),
    looks("wait jobs times dirs", Words, "", ""),
    careful("whatis apropos", Words, ("s", "section"), ("adelrw", "")),
    careful("who", Words, ("", ""), ("abdHlmpqrstTuw", "")),
    careful("hostname", Words, ("", ""), ("fsdiIAy", "fqdn short ip-address")),
    careful(
        "ss netstat",
        Words,
        ("", ""),
        ("tulnpaemios46xwrH", "tcp udp listening numeric processes all"),
    ),
    careful("lsof", Words, ("ipu", ""), ("nPta", "")),
    careful(
        "file",
        Read,
        ("FeP", ""),
        ("bhiLkprsN0vE", "brief mime mime-type mime-encoding version"),
    ),
    careful(
        "date",
        Words,
        ("d", "date"),
        ("uRI", "utc universal iso-8601 rfc-3339 rfc-email date debug version help"),
    ),
    careful(
        "sort",
        Read,
        ("ktSo", "key field-separator output"),
        (
            "bdfghiMnRrVcCmsuz",
            "key field-separator numeric-sort reverse unique ignore-case version-sort stable check merge \
             human-numeric-sort general-numeric-sort zero-terminated ignore-leading-blanks dictionary-order",
        ),
    ),
    // A script that understands few of grep's options, and looks at the rest in its own way.
    careful("zgrep", PatternThenRead, ("efmABC", ""), ("cEFGhHilLnoqsvwxy", "")),
    looks(
        "grep egrep fgrep",
        PatternThenRead,
        "efmABCdD",
        "regexp file max-count after-context before-context context include exclude exclude-dir exclude-from \
         binary-files directories devices label group-separator",
    ),
    careful(
        "rg",
        PatternThenTree,
        (
            "efgtTmABCMdEjr",
            "regexp file glob iglob type type-not max-count after-context before-context context max-columns \
             max-depth encoding threads replace sort sortr color colors max-filesize",
        ),
        (
            "nilcvwsSuHIoNpFPUhaL0.qx",
            "regexp glob iglob type type-not max-count after-context before-context context max-columns max-depth \
             encoding threads replace sort sortr color colors max-filesize files files-with-matches \
             files-without-match count count-matches line-number no-line-number ignore-case case-sensitive \
             smart-case fixed-strings word-regexp line-regexp invert-match hidden no-ignore no-ignore-vcs no-heading \
             heading with-filename no-filename only-matching multiline multiline-dotall pcre2 json stats trim \
             vimgrep passthru null text quiet column pretty follow unrestricted type-list version help no-messages \
             no-config one-file-system no-ignore-parent max-columns-preview",
        ),
    ),
    careful(
        "fd fdfind",
        PatternThenTree,
        (
            "tedESojc",
            "type extension max-depth exclude min-depth exact-depth size color threads max-results changed-within changed-before",
        ),
        (
            "HIuspaL0gFiq1",
            "type extension max-depth exclude min-depth exact-depth size color threads max-results changed-within \
             changed-before hidden no-ignore unrestricted case-sensitive ignore-case glob fixed-strings full-path \
             absolute-path follow print0 quiet version help strip-cwd-prefix regex",
        ),
    ),
    careful(
        "tree",
        ReadTree,
        ("LPIo", "charset filelimit"),
        ("adfilpsugDhFxrtcUvQNJXCnA", "noreport dirsfirst gitignore du prune charset filelimit"),
    ),
    careful("less more", Read, ("o", ""), ("RSNFXniErMKQe", "")),
    careful("man", Words, ("", ""), ("kfwaK", "")),
    careful(
        "jq",
        PatternThenRead,
        ("", "indent arg argjson"),
        (
            "rcsneSMCjaR",
            "raw-output compact-output slurp null-input exit-status sort-keys monochrome-output color-output \
             join-output ascii-output raw-input tab indent arg argjson args jsonargs",
        ),
    ),
    careful(
        "yq",
        PatternThenRead,
        ("oIp", "output-format indent input-format"),
        (
            "PMCNer",
            "output-format indent input-format prettyPrint no-colors colors no-doc exit-status unwrapScalar raw-output",
        ),
    ),
    careful("iconv", Read, ("ft", "from-code to-code"), ("cl", "from-code to-code list")),
    // From here on nothing only looks.
    acts("rm unlink rmdir shred srm wipe", Write, "ns", "iterations size"),
    acts("truncate", Write, "sr", "size reference"),
    acts("touch", Write, "drt", "date reference time"),
    acts("mkdir mkfifo", Write, "m", "mode"),
    acts("mktemp", Words, "p", ""),
    acts("tee", Write, "", ""),
    acts("cp", CopyToLast, "St", "target-directory suffix"),
    acts("rsync", CopyToLast, "efBTM", "rsh exclude include filter"),
    acts("scp", CopyToLast, "cDFiJloPSX", ""),
    acts("install", CopyToLast, "gmotS", "group mode owner target-directory suffix"),
    acts("ln link", CopyToLast, "St", "target-directory suffix"),
    acts("mv", MoveToLast, "St", "target-directory suffix"),
    acts("chmod chown chgrp setfacl", WordThenWrite, "", "reference from"),
    acts(
        "gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd compress uncompress",
        Write,
        "STo",
        "suffix threads",
    ),
    acts("vi vim nvim nano ed ex emacs code pico joe micro", Write, "cSsu", "cmd"),
    acts("sqlite3", Write, "", "cmd init separator newline nullvalue"),
    acts(
        "python python3 python2 node ruby perl php lua deno bun Rscript osascript tclsh",
        ScriptThenWords,
        "cemWXEIr",
        "eval require import loader",
    ),
    acts("bash sh dash zsh ksh ash fish source .", ScriptThenWords, "cO", "rcfile init-file"),
];
