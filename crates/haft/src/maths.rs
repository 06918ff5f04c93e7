//! The three functions of the C library's maths that the program needs (SQLite, limits of speed), linked in. Its shared
//! library would be opened and wired up at every start, 0.1 ms, for nothing that a start needs.

macro_rules! export {
    ($($name:ident($($argument:ident),+)),+ $(,)?) => {$(
        #[expect(unsafe_code, reason = "C code looks for it by this name")]
        // SAFETY: the same signature and meaning as in C, and nothing but numbers in and out.
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: f64),+) -> f64 {
            libm::$name($($argument),+)
        }
    )+};
}

export!(log(x), log2(x), pow(x, y));
