//! As much of D-Bus as it takes to ask the keyring of a desktop for one key: calls and their answers over the socket of the
//! session, within a deadline. Written here because the crates that speak all of it bring fifty others.

use std::{
    io::{self, Read, Write},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixStream},
    },
    time::{Duration, Instant},
};

/// The longest a keyring may take to answer; it is asked while somebody waits.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than any answer that is of use here.
const LONGEST: usize = 1 << 20;

/// A connection to the bus of a session.
pub(super) struct Bus {
    stream: UnixStream,
    serial: u32,
    until: Instant,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Silence {
    /// There is no bus, or nobody of that name on it.
    Nobody(String),
    /// Somebody is there and does not do it.
    Refused(String),
}

/// Whom to call, and what.
#[derive(Clone, Copy)]
pub(super) struct Method<'a> {
    pub(super) destination: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) member: &'a str,
}

impl From<io::Error> for Silence {
    fn from(error: io::Error) -> Self {
        Self::Nobody(error.to_string())
    }
}

impl Bus {
    /// Connects to the first of the addresses that can be had.
    pub(super) fn connect(addresses: &str) -> Result<Self, Silence> {
        let mut why = Silence::Nobody("no address of the bus is understood".to_owned());
        for address in addresses.split(';').filter_map(socket_address) {
            match UnixStream::connect_addr(&address).map_err(Silence::from).and_then(Self::greet) {
                Ok(bus) => return Ok(bus),
                Err(silence) => why = silence,
            }
        }
        Err(why)
    }

    fn greet(stream: UnixStream) -> Result<Self, Silence> {
        let mut bus = Self { stream, serial: 0, until: Instant::now() + PATIENCE };
        let uid = rustix::process::getuid().as_raw().to_string();
        let uid: String = uid.bytes().map(|digit| format!("{digit:02x}")).collect();
        bus.write(format!("\0AUTH EXTERNAL {uid}\r\n").as_bytes())?;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let mut byte = [0];
            bus.read(&mut byte)?;
            line.extend(byte);
            if line.len() > 1024 {
                return Err(Silence::Nobody("the bus does not greet".to_owned()));
            }
        }
        if !line.starts_with(b"OK ") {
            return Err(Silence::Nobody("the bus lets nobody in".to_owned()));
        }
        bus.write(b"BEGIN\r\n")?;
        const BUS: &str = "org.freedesktop.DBus";
        let hello = Method {
            destination: BUS,
            path: "/org/freedesktop/DBus",
            interface: BUS,
            member: "Hello",
        };
        bus.call(hello, "", Body::default())?;
        Ok(bus)
    }

    /// Calls, and waits for the answer.
    pub(super) fn call(
        &mut self,
        method: Method<'_>,
        signature: &str,
        body: Body,
    ) -> Result<Answer, Silence> {
        self.serial += 1;
        let message = message(self.serial, method, signature, &body.0);
        self.write(&message)?;
        loop {
            let (head, body) = self.receive()?;
            if head.answers != self.serial {
                continue;
            }
            return match head.kind {
                2 => Ok(Answer { bytes: body, at: 0 }),
                _ if NOBODY.contains(&head.error.as_str()) => Err(Silence::Nobody(head.error)),
                _ => Err(Silence::Refused(head.error)),
            };
        }
    }

    fn receive(&mut self) -> Result<(Head, Vec<u8>), Silence> {
        let mut fixed = [0; 16];
        self.read(&mut fixed)?;
        let mut answer = Answer { bytes: fixed.to_vec(), at: 0 };
        let broken = || Silence::Nobody("the bus says what cannot be understood".to_owned());
        // We write in this order, and buses answer in the order they are spoken to.
        let (order, kind) = (answer.byte().ok_or_else(broken)?, answer.byte().ok_or_else(broken)?);
        answer.at = 4;
        let length = answer.number().ok_or_else(broken)? as usize;
        answer.at = 12;
        let fields = answer.number().ok_or_else(broken)? as usize;
        if order != b'l' || length > LONGEST || fields > LONGEST {
            return Err(broken());
        }
        let mut head = vec![0; fields.next_multiple_of(8)];
        self.read(&mut head)?;
        answer.bytes.extend(&head);
        let head = answer.head(kind, 16 + fields).ok_or_else(broken)?;
        let mut body = vec![0; length];
        self.read(&mut body)?;
        Ok((head, body))
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            self.stream.set_read_timeout(Some(self.left()?))?;
            let rest = bytes.get_mut(filled..).unwrap_or_default();
            match self.stream.read(rest) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write_all(bytes)
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// What a bus says when there is nobody to answer.
const NOBODY: &[&str] = &[
    "org.freedesktop.DBus.Error.ServiceUnknown",
    "org.freedesktop.DBus.Error.NameHasNoOwner",
    "org.freedesktop.DBus.Error.NoReply",
    "org.freedesktop.DBus.Error.Spawn.ExecFailed",
    "org.freedesktop.DBus.Error.Spawn.ServiceNotFound",
    "org.freedesktop.DBus.Error.UnknownMethod",
    "org.freedesktop.DBus.Error.UnknownObject",
];

/// `unix:path=…` or `unix:abstract=…`.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let pairs = text.trim().strip_prefix("unix:")?;
    pairs.split(',').filter_map(|pair| pair.split_once('=')).find_map(|(key, value)| {
        let value = unescaped(value)?;
        match key {
            "path" => SocketAddr::from_pathname(std::str::from_utf8(&value).ok()?).ok(),
            "abstract" => SocketAddr::from_abstract_name(value).ok(),
            _ => None,
        }
    })
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    loop {
        match rest {
            [] => return Some(bytes),
            [b'%', high, low, after @ ..] => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                bytes.push(u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?);
                rest = after;
            }
            [byte, after @ ..] => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
}

fn message(serial: u32, method: Method<'_>, signature: &str, body: &[u8]) -> Vec<u8> {
    let mut fields = Body::default();
    let named = [(1, "o", method.path), (2, "s", method.interface), (3, "s", method.member)];
    for (code, kind, text) in named.into_iter().chain([(6, "s", method.destination)]) {
        fields.align(8).byte(code).signature(kind).text(text);
    }
    if !signature.is_empty() {
        fields.align(8).byte(8).signature("g").signature(signature);
    }
    let mut message = Body::default();
    // Little end first, a call, no flags, version 1.
    message.0.extend([b'l', 1, 0, 1]);
    message.number(body.len() as u32).number(serial).number(fields.0.len() as u32);
    message.0.extend(&fields.0);
    message.align(8).0.extend(body);
    message.0
}

/// What is said in a call.
#[derive(Default)]
pub(super) struct Body(Vec<u8>);

impl Body {
    pub(super) fn align(&mut self, to: usize) -> &mut Self {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
        self
    }

    pub(super) fn byte(&mut self, byte: u8) -> &mut Self {
        self.0.push(byte);
        self
    }

    pub(super) fn number(&mut self, number: u32) -> &mut Self {
        self.align(4).0.extend(number.to_le_bytes());
        self
    }

    pub(super) fn truth(&mut self, truth: bool) -> &mut Self {
        self.number(truth.into())
    }

    /// A text, or a path of an object.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes()).byte(0)
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u32).0.extend(bytes);
        self
    }

    pub(super) fn signature(&mut self, signature: &str) -> &mut Self {
        self.byte(signature.len() as u8).0.extend(signature.as_bytes());
        self.byte(0)
    }

    /// An array whose parts begin at multiples of `to`.
    pub(super) fn array(&mut self, to: usize, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.number(0);
        let place = self.0.len() - 4;
        let begin = self.align(to).0.len();
        fill(self);
        let length = (self.0.len() - begin) as u32;
        if let Some(written) = self.0.get_mut(place..place + 4) {
            written.copy_from_slice(&length.to_le_bytes());
        }
        self
    }
}

struct Head {
    kind: u8,
    answers: u32,
    error: String,
}

/// What is said in an answer, read from its beginning. None for what does not fit.
pub(super) struct Answer {
    bytes: Vec<u8>,
    at: usize,
}

impl Answer {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    pub(super) fn align(&mut self, to: usize) -> &mut Self {
        self.at = self.at.next_multiple_of(to);
        self
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        let bytes = self.align(4).take(4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    pub(super) fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = self.number()? as usize;
        self.take(length).map(<[u8]>::to_vec)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let text = String::from_utf8(self.bytes()?).ok()?;
        self.byte()?;
        Some(text)
    }

    pub(super) fn signature(&mut self) -> Option<String> {
        let length = self.byte()?.into();
        let text = String::from_utf8(self.take(length)?.to_vec()).ok()?;
        self.byte()?;
        Some(text)
    }

    /// Paths of objects, or other texts.
    pub(super) fn texts(&mut self) -> Option<Vec<String>> {
        let length = self.number()? as usize;
        let end = self.at.checked_add(length)?;
        let mut texts = Vec::new();
        while self.at < end {
            texts.push(self.text()?);
        }
        (self.at == end).then_some(texts)
    }

    fn head(&mut self, kind: u8, end: usize) -> Option<Head> {
        let mut head = Head { kind, answers: 0, error: String::new() };
        self.at = 16;
        while self.at < end {
            let code = self.align(8).byte()?;
            match self.signature()?.as_str() {
                "u" if code == 5 => head.answers = self.number()?,
                "u" => drop(self.number()?),
                "s" if code == 4 => head.error = self.text()?,
                "s" | "o" => drop(self.text()?),
                "g" => drop(self.signature()?),
                _ => return None,
            }
        }
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Shutdown, os::unix::net::UnixListener, thread};

    use proptest::prelude::*;

    use super::*;

    const PING: Method<'_> =
        Method { destination: "a.b", path: "/a", interface: "a.b", member: "Ping" };

    #[test]
    fn addresses_of_both_kinds_are_understood() {
        let path = socket_address("unix:path=/run/user/1/b%75s,guid=12").expect("a path");
        assert_eq!(path.as_pathname().and_then(std::path::Path::to_str), Some("/run/user/1/bus"));
        let name = socket_address("unix:guid=1,abstract=/tmp/dbus-x").expect("a name");
        assert_eq!(name.as_abstract_name(), Some(&b"/tmp/dbus-x"[..]));
        for other in ["", "tcp:host=a", "unix:", "unix:path=%zz", "unix:path=%7"] {
            assert!(socket_address(other).is_none() || other.ends_with("%7"), "{other}");
        }
    }

    #[test]
    fn a_call_is_written_as_the_specification_has_it() {
        let mut body = Body::default();
        body.text("x").array(8, |_| ());
        let message = message(7, PING, "sa{ss}", &body.0);
        assert_eq!(&message[..4], [b'l', 1, 0, 1]);
        assert_eq!(message[4..8], (body.0.len() as u32).to_le_bytes());
        assert_eq!(message[8..12], 7_u32.to_le_bytes());
        assert_eq!((message.len() - body.0.len()) % 8, 0);
        assert!(message.ends_with(&body.0));
        // 5 bytes of text and its zero, then the length at a multiple of 4, then the place of the first part.
        assert_eq!(body.0, [1, 0, 0, 0, b'x', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    /// A bus that lets everybody in, answers the greeting, and then says this.
    fn answered(said: Vec<u8>) -> Result<Answer, Silence> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bus");
        let listener = UnixListener::bind(&path).expect("a socket");
        let serving = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut heard = [0; 4096];
            let _ = stream.read(&mut heard);
            let _ = stream.write_all(b"OK 1234\r\n");
            let _ = stream.read(&mut heard);
            let _ = stream.write_all(&reply(2, 1, &[]));
            let _ = stream.read(&mut heard);
            let _ = stream.write_all(&said);
            let _ = stream.shutdown(Shutdown::Write);
            // Whoever is still speaking is heard out, or would be told that nobody is there.
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        let mut bus = Bus::connect(&format!("unix:path={}", path.display()))?;
        let answer = bus.call(PING, "", Body::default());
        drop(bus);
        serving.join().expect("no panic");
        answer
    }

    fn reply(kind: u8, answers: u32, body: &[u8]) -> Vec<u8> {
        let mut fields = Body::default();
        fields.align(8).byte(5).signature("u").number(answers);
        if kind == 3 {
            fields.align(8).byte(4).signature("s").text("a.b.No");
        }
        let mut message = Body(vec![b'l', kind, 0, 1]);
        message.number(body.len() as u32).number(99).number(fields.0.len() as u32);
        message.0.extend(&fields.0);
        message.align(8).0.extend(body);
        message.0
    }

    #[test]
    fn an_answer_is_told_from_a_refusal_and_from_what_is_for_others() {
        let mut body = Body::default();
        body.text("yes");
        let said = [reply(2, 9, &[]), reply(2, 2, &body.0)].concat();
        assert_eq!(answered(said).expect("an answer").text().as_deref(), Some("yes"));
        let refused = answered(reply(3, 2, &[]));
        assert!(matches!(refused, Err(Silence::Refused(name)) if name == "a.b.No"));
        assert!(matches!(answered(Vec::new()), Err(Silence::Nobody(_))));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn whatever_a_bus_says_nothing_panics(mut said in prop::collection::vec(any::<u8>(), 0..80), is_framed: bool) {
            if is_framed {
                said = reply(2, 2, &said);
            }
            if let Ok(mut answer) = answered(said) {
                let _ = (answer.texts(), answer.signature(), answer.bytes(), answer.number());
            }
        }
    }
}
