//! The key of the secrets in the keyring of the desktop, which speaks the Secret Service's protocol (GNOME Keyring, KWallet,
//! KeePassXC). Nobody is prompted: a keyring that is locked is told.

use std::path::Path;

use super::bus::{Answer, Body, Bus, Method, Silence};

const SERVICE: &str = "org.freedesktop.secrets";
const ROOT: &str = "/org/freedesktop/secrets";
const OF_SERVICE: &str = "org.freedesktop.Secret.Service";
/// What stands for no object.
const NONE: &str = "/";

/// Why a keyring cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// There is none.
    Absent(String),
    /// There is one, and somebody has to open it first.
    Locked,
}

impl From<Silence> for Fault {
    fn from(silence: Silence) -> Self {
        match silence {
            Silence::Refused(why) if why.ends_with(".IsLocked") => Self::Locked,
            Silence::Nobody(why) | Silence::Refused(why) => Self::Absent(why),
        }
    }
}

/// A keyring, and a session with it.
pub(super) struct Keyring {
    bus: Bus,
    session: String,
}

impl Keyring {
    pub(super) fn open(addresses: &str) -> Result<Self, Fault> {
        let mut bus = Bus::connect(addresses)?;
        let mut body = Body::default();
        // The socket is the person's own; whoever can read it can ask the keyring as well.
        body.text("plain").signature("s").text("");
        let mut answer = bus.call(of_service("OpenSession"), "sv", body)?;
        let session = answer.signature().filter(|kind| kind == "s").and_then(|_| {
            answer.text()?;
            answer.text()
        });
        Ok(Self { bus, session: session.ok_or_else(not_understood)? })
    }

    /// What is kept for this file.
    pub(super) fn find(&mut self, file: &Path) -> Result<Option<Vec<u8>>, Fault> {
        let mut body = Body::default();
        attributes(&mut body, file);
        let mut found = self.bus.call(of_service("SearchItems"), "a{ss}", body)?;
        let open = found.texts().ok_or_else(not_understood)?;
        let locked = found.texts().ok_or_else(not_understood)?;
        let item = match (open.into_iter().next(), locked.is_empty()) {
            (Some(item), _) => item,
            (None, true) => return Ok(None),
            (None, false) => self.unlocked(&locked)?,
        };
        let mut body = Body::default();
        body.text(&self.session.clone());
        let method = Method {
            destination: SERVICE,
            path: &item,
            interface: "org.freedesktop.Secret.Item",
            member: "GetSecret",
        };
        let answer = self.bus.call(method, "o", body)?;
        value(answer).map(Some).ok_or_else(not_understood)
    }

    /// Keeps this for the file, in the place of what was kept.
    pub(super) fn keep(&mut self, file: &Path, value: &[u8]) -> Result<(), Fault> {
        let mut body = Body::default();
        body.text("default");
        let mut answer = self.bus.call(of_service("ReadAlias"), "s", body)?;
        let collection = answer.text().ok_or_else(not_understood)?;
        if collection == NONE {
            return Err(Fault::Absent("it has no default collection".to_owned()));
        }
        self.unlocked(std::slice::from_ref(&collection))?;
        let mut body = Body::default();
        body.array(8, |properties| {
            properties.align(8).text("org.freedesktop.Secret.Item.Label");
            properties.signature("s").text("haft: the key of your secrets");
            properties.align(8).text("org.freedesktop.Secret.Item.Attributes").signature("a{ss}");
            attributes(properties, file);
        });
        body.align(8).text(&self.session.clone()).bytes(&[]).bytes(value);
        body.text("application/octet-stream").truth(true);
        let method = Method {
            destination: SERVICE,
            path: &collection,
            interface: "org.freedesktop.Secret.Collection",
            member: "CreateItem",
        };
        let mut made = self.bus.call(method, "a{sv}(oayays)b", body)?;
        let item = made.text().ok_or_else(not_understood)?;
        if item == NONE { Err(Fault::Locked) } else { Ok(()) }
    }

    /// The first of these objects, opened if that takes no question.
    fn unlocked(&mut self, objects: &[String]) -> Result<String, Fault> {
        let mut body = Body::default();
        body.array(4, |list| {
            for object in objects {
                list.text(object);
            }
        });
        let mut answer = self.bus.call(of_service("Unlock"), "ao", body)?;
        let unlocked = answer.texts().ok_or_else(not_understood)?;
        unlocked.into_iter().next().ok_or(Fault::Locked)
    }
}

fn of_service(member: &str) -> Method<'_> {
    Method { destination: SERVICE, path: ROOT, interface: OF_SERVICE, member }
}

/// By what it is found again: each file of secrets has a key of its own.
fn attributes(body: &mut Body, file: &Path) {
    let file = file.to_string_lossy();
    body.array(8, |pairs| {
        for (name, value) in [("application", "haft"), ("file", &file), ("purpose", "secrets")] {
            pairs.align(8).text(name).text(value);
        }
    });
}

/// Session, parameters, value and its type.
fn value(mut answer: Answer) -> Option<Vec<u8>> {
    answer.align(8).text()?;
    answer.bytes()?;
    answer.bytes()
}

fn not_understood() -> Fault {
    Fault::Absent("its answer is not understood".to_owned())
}
