//! The table of programs: which of their words are files, and which of their options keep them
//! read-only.

use super::{is_one_of, options::Valued};

/// An entry of the table.
pub(super) struct KnownProgram {
    names: &'static str,
    pub(super) operands: Operands,
    pub(super) valued: Valued,
    pub(super) read_only: ReadOnly,
}

/// The meaning of the operands (the words that are not options).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operands {
    /// They are not files.
    Words,
    /// Files to read.
    Read,
    /// Files and directories to read recursively; the current directory when there are none.
    ReadTree,
    /// A pattern, then files to read.
    PatternThenRead,
    /// A pattern, then directories to read recursively.
    PatternThenTree,
    /// A file to read, then one to write.
    ReadOneWriteOne,
    /// Files to write.
    Write,
    /// One word, then files to write.
    WordThenWrite,
    /// Files to read; the last one is written.
    CopyToLast,
    /// All are written: a file that is moved away is removed from its place.
    MoveToLast,
    /// A script to read, then words for it.
    ScriptThenWords,
}

/// When a program is read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOnly {
    /// Always: none of its options writes or runs anything.
    Always,
    /// Only with these letters and names, and with those that take a value.
    WithOptions { letters: &'static str, names: &'static str },
    /// Never.
    Never,
}

impl KnownProgram {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|program| is_one_of(program.names, name))
    }
}

const fn read_only(
    names: &'static str,
    operands: Operands,
    letters: &'static str,
    long: &'static str,
) -> KnownProgram {
    KnownProgram {
        names,
        operands,
        valued: Valued { letters, names: long },
        read_only: ReadOnly::Always,
    }
}

const fn read_only_with(
    names: &'static str,
    operands: Operands,
    valued: (&'static str, &'static str),
    allowed: (&'static str, &'static str),
) -> KnownProgram {
    KnownProgram {
        names,
        operands,
        valued: Valued { letters: valued.0, names: valued.1 },
        read_only: ReadOnly::WithOptions { letters: allowed.0, names: allowed.1 },
    }
}

const fn changing(
    names: &'static str,
    operands: Operands,
    letters: &'static str,
    long: &'static str,
) -> KnownProgram {
    KnownProgram {
        names,
        operands,
        valued: Valued { letters, names: long },
        read_only: ReadOnly::Never,
    }
}

use Operands::{
    CopyToLast, MoveToLast, PatternThenRead, PatternThenTree, Read, ReadOneWriteOne, ReadTree,
    ScriptThenWords, WordThenWrite, Words, Write,
};

/// The first row with the name applies.
static PROGRAMS: &[KnownProgram] = &[
    read_only("cat tac rev zcat bzcat xzcat realpath readlink zipinfo", Read, "", ""),
    // `-o`, which names an output file, is an option of zstd.
    read_only_with("zstdcat", Read, ("o", ""), ("fkqv", "")),
    read_only("nl", Read, "bdfhilnsvw", ""),
    read_only("head tail", Read, "ncs", "lines bytes pid sleep-interval"),
    read_only_with("wc", Read, ("", ""), ("clmwL", "bytes chars lines words max-line-length")),
    read_only("cut", Read, "bcdf", "bytes characters delimiter fields output-delimiter"),
    read_only("paste", Read, "d", "delimiters"),
    read_only("comm", Read, "", "output-delimiter"),
    read_only("join", Read, "12aejotv", ""),
    read_only("fold fmt", Read, "wpg", "width"),
    read_only("expand unexpand", Read, "t", "tabs"),
    read_only("column", Read, "csoNHREWTlnOrip", "separator output-separator table-columns"),
    read_only("uniq", ReadOneWriteOne, "fsw", "skip-fields skip-chars check-chars"),
    read_only(
        "diff",
        Read,
        "UCFIxWLSX",
        "exclude label width exclude-from from-file to-file starting-file",
    ),
    read_only("cmp", Read, "in", "ignore-initial bytes"),
    read_only("stat", Read, "c", "format printf"),
    read_only(
        "du",
        ReadTree,
        "dBtX",
        "max-depth block-size threshold exclude exclude-from files0-from",
    ),
    read_only("df", Read, "Btx", "block-size type exclude-type"),
    read_only("ls dir vdir", Read, "ITw", "ignore tabsize width hide block-size"),
    read_only(
        "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum",
        Read,
        "la",
        "length",
    ),
    read_only("base64 base32", Read, "w", "wrap"),
    read_only("od", Read, "AjNSt", "address-radix skip-bytes read-bytes format"),
    read_only("hexdump hd", Read, "ensf", "length skip format format-file"),
    read_only("strings", Read, "nteTsU", "bytes radix encoding target output-separator unicode"),
    // Sections with debug information refer to other files.
    read_only_with(
        "readelf",
        Read,
        ("xpR", ""),
        (
            "ahlSgtensruVAdcDIW",
            "all file-header program-headers segments section-headers sections headers symbols syms dyn-syms \
             notes relocs dynamic version-info arch-specific histogram wide",
        ),
    ),
    read_only_with("nm", Read, ("", ""), ("ACDgnpruS", "demangle defined-only undefined-only")),
    read_only_with("objdump", Read, ("jMmb", "section"), ("dDxhtTsrRfpaC", "disassemble demangle")),
    read_only_with("xxd", ReadOneWriteOne, ("cglosn", ""), ("abCeipuE", "")),
    read_only("basename dirname", Words, "sz", "suffix"),
    read_only(
        "echo printf pwd true false : seq sleep yes tr factor nproc uname arch tty logname",
        Words,
        "",
        "",
    ),
    read_only(
        "whoami id groups uptime free lscpu lsblk ps pgrep pstree pidof printenv",
        Words,
        "",
        "",
    ),
    read_only("which whereis locale test [ exit return break continue shift", Words, "", ""),
    read_only("wait jobs times dirs", Words, "", ""),
    read_only_with("whatis apropos", Words, ("s", "section"), ("adelrw", "")),
    read_only_with("who", Words, ("", ""), ("abdHlmpqrstTuw", "")),
    read_only_with("hostname", Words, ("", ""), ("fsdiIAy", "fqdn short ip-address")),
    read_only_with(
        "ss netstat",
        Words,
        ("", ""),
        ("tulnpaemios46xwrH", "tcp udp listening numeric processes all"),
    ),
    read_only_with("lsof", Words, ("ipu", ""), ("nPta", "")),
    read_only_with(
        "file",
        Read,
        ("FeP", ""),
        ("bhiLkprsN0vE", "brief mime mime-type mime-encoding version"),
    ),
    read_only_with(
        "date",
        Words,
        ("d", "date"),
        ("uRI", "utc universal iso-8601 rfc-3339 rfc-email date debug version help"),
    ),
    read_only_with(
        "sort",
        Read,
        ("ktSo", "key field-separator output"),
        (
            "bdfghiMnRrVcCmsuz",
            "key field-separator numeric-sort reverse unique ignore-case version-sort stable check merge \
             human-numeric-sort general-numeric-sort zero-terminated ignore-leading-blanks dictionary-order",
        ),
    ),
    // A script that understands few of grep's options and parses the others in its own way.
    read_only_with("zgrep", PatternThenRead, ("efmABC", ""), ("cEFGhHilLnoqsvwxy", "")),
    read_only(
        "grep egrep fgrep",
        PatternThenRead,
        "efmABCdD",
        "regexp file max-count after-context before-context context include exclude exclude-dir exclude-from \
         binary-files directories devices label group-separator",
    ),
    read_only_with(
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
    read_only_with(
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
    read_only_with(
        "tree",
        ReadTree,
        ("LPIo", "charset filelimit"),
        ("adfilpsugDhFxrtcUvQNJXCnA", "noreport dirsfirst gitignore du prune charset filelimit"),
    ),
    read_only_with("less more", Read, ("o", ""), ("RSNFXniErMKQe", "")),
    read_only_with("man", Words, ("", ""), ("kfwaK", "")),
    read_only_with(
        "jq",
        PatternThenRead,
        ("", "indent arg argjson"),
        (
            "rcsneSMCjaR",
            "raw-output compact-output slurp null-input exit-status sort-keys monochrome-output color-output \
             join-output ascii-output raw-input tab indent arg argjson args jsonargs",
        ),
    ),
    read_only_with(
        "yq",
        PatternThenRead,
        ("oIp", "output-format indent input-format"),
        (
            "PMCNer",
            "output-format indent input-format prettyPrint no-colors colors no-doc exit-status unwrapScalar raw-output",
        ),
    ),
    read_only_with("iconv", Read, ("ft", "from-code to-code"), ("cl", "from-code to-code list")),
    // The programs from here on are never read-only.
    changing("rm unlink rmdir shred srm wipe", Write, "ns", "iterations size"),
    changing("truncate", Write, "sr", "size reference"),
    changing("touch", Write, "drt", "date reference time"),
    changing("mkdir mkfifo", Write, "m", "mode"),
    changing("mktemp", Words, "p", ""),
    changing("tee", Write, "", ""),
    changing("cp", CopyToLast, "St", "target-directory suffix"),
    changing("rsync", CopyToLast, "efBTM", "rsh exclude include filter"),
    changing("scp", CopyToLast, "cDFiJloPSX", ""),
    changing("install", CopyToLast, "gmotS", "group mode owner target-directory suffix"),
    changing("ln link", CopyToLast, "St", "target-directory suffix"),
    changing("mv", MoveToLast, "St", "target-directory suffix"),
    changing("chmod chown chgrp setfacl", WordThenWrite, "", "reference from"),
    changing(
        "gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd compress uncompress",
        Write,
        "STo",
        "suffix threads",
    ),
    changing("vi vim nvim nano ed ex emacs code pico joe micro", Write, "cSsu", "cmd"),
    changing("sqlite3", Write, "", "cmd init separator newline nullvalue"),
    changing(
        "python python3 python2 node ruby perl php lua deno bun Rscript osascript tclsh",
        ScriptThenWords,
        "cemWXEIr",
        "eval require import loader",
    ),
    changing("bash sh dash zsh ksh ash fish source .", ScriptThenWords, "cO", "rcfile init-file"),
];
