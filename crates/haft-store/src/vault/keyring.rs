//! The key of the secrets in the keyring of the desktop, which speaks the Secret Service's protocol (GNOME Keyring, KWallet,
//! KeePassXC). Nobody is prompted: a keyring that is locked is told.

use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, Instant},
};

use dbus::{
    Message, Path as Object,
    arg::{AppendAll, PropMap, ReadAll, Variant},
    blocking::{Connection, Proxy},
    channel::Channel,
};

const SERVICE: &str = "org.freedesktop.secrets";
const ROOT: &str = "/org/freedesktop/secrets";
const OF_SERVICE: &str = "org.freedesktop.Secret.Service";
const OF_COLLECTION: &str = "org.freedesktop.Secret.Collection";
const OF_ITEM: &str = "org.freedesktop.Secret.Item";
const BUS: &str = "org.freedesktop.DBus";
/// What stands for no object.
const NONE: &str = "/";
/// The longest a keyring may take to answer; it is asked while somebody waits.
const PATIENCE: Duration = Duration::from_secs(5);

/// Session, parameters, value and its type.
type Secret = (Object<'static>, Vec<u8>, Vec<u8>, String);

/// Why a keyring cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// There is none.
    Absent(String),
    /// There is one, and somebody has to open it first.
    Locked,
}

impl From<dbus::Error> for Fault {
    fn from(error: dbus::Error) -> Self {
        match error.name() {
            Some(name) if name.ends_with(".IsLocked") => Self::Locked,
            name => Self::Absent(error.message().or(name).unwrap_or_default().to_owned()),
        }
    }
}

/// A keyring, and a session with it.
pub(super) struct Keyring {
    connection: Connection,
    until: Instant,
    session: Object<'static>,
}

impl Keyring {
    pub(super) fn open(addresses: &str) -> Result<Self, Fault> {
        Self::open_until(addresses, Instant::now() + PATIENCE)
    }

    fn open_until(addresses: &str, until: Instant) -> Result<Self, Fault> {
        let channel = Channel::open_private(addresses)?;
        greet(&channel, until)?;
        let mut keyring = Self { connection: channel.into(), until, session: NONE.into() };
        // The socket is the person's own; whoever can read it can ask the keyring as well.
        let plain = ("plain", Variant(""));
        let (_, session): (Variant<String>, Object<'static>) =
            keyring.of_service("OpenSession", plain)?;
        keyring.session = session;
        Ok(keyring)
    }

    /// What is kept for this file.
    pub(super) fn find(&self, file: &Path) -> Result<Option<Vec<u8>>, Fault> {
        let (open, locked): (Vec<Object<'static>>, Vec<Object<'static>>) =
            self.of_service("SearchItems", (attributes(file),))?;
        let item = match (open.into_iter().next(), locked.is_empty()) {
            (Some(item), _) => item,
            (None, true) => return Ok(None),
            (None, false) => self.unlocked(locked)?,
        };
        let ((_, _, value, _),): (Secret,) =
            self.call(&item, OF_ITEM, "GetSecret", (&self.session,))?;
        Ok(Some(value))
    }

    /// Keeps this for the file, in the place of what was kept.
    pub(super) fn keep(&self, file: &Path, value: &[u8]) -> Result<(), Fault> {
        let (collection,): (Object<'static>,) = self.of_service("ReadAlias", ("default",))?;
        if &*collection == NONE {
            return Err(Fault::Absent("it has no default collection".to_owned()));
        }
        self.unlocked(vec![collection.clone()])?;
        let label = "haft: the key of your secrets".to_owned();
        let mut properties = PropMap::new();
        properties.insert(format!("{OF_ITEM}.Label"), Variant(Box::new(label)));
        properties.insert(format!("{OF_ITEM}.Attributes"), Variant(Box::new(attributes(file))));
        let kind = "application/octet-stream";
        let secret = (&self.session, Vec::<u8>::new(), value, kind);
        let (item, _): (Object<'static>, Object<'static>) =
            self.call(&collection, OF_COLLECTION, "CreateItem", (properties, secret, true))?;
        if &*item == NONE { Err(Fault::Locked) } else { Ok(()) }
    }

    /// The first of these objects, opened if that takes no question.
    fn unlocked(&self, objects: Vec<Object<'static>>) -> Result<Object<'static>, Fault> {
        let (unlocked, _prompt): (Vec<Object<'static>>, Object<'static>) =
            self.of_service("Unlock", (objects,))?;
        unlocked.into_iter().next().ok_or(Fault::Locked)
    }

    fn of_service<R: ReadAll>(&self, member: &str, said: impl AppendAll) -> Result<R, Fault> {
        self.call(&ROOT.into(), OF_SERVICE, member, said)
    }

    fn call<R: ReadAll>(
        &self,
        object: &Object<'_>,
        interface: &str,
        member: &str,
        said: impl AppendAll,
    ) -> Result<R, Fault> {
        let proxy = Proxy::new(SERVICE, object, left(self.until), &self.connection);
        Ok(proxy.method_call(interface, member, said)?)
    }
}

/// Says hello to the bus. libdbus waits without end for a bus that does not greet, so this is done here.
fn greet(channel: &Channel, until: Instant) -> Result<(), Fault> {
    let hello = Message::new_method_call(BUS, "/org/freedesktop/DBus", BUS, "Hello");
    let serial = channel.send(hello.map_err(Fault::Absent)?).ok();
    while !left(until).is_zero() {
        match channel.blocking_pop_message(left(until))? {
            Some(mut answer) if answer.get_reply_serial() == serial => {
                answer.as_result()?;
                return Ok(());
            }
            _ => {}
        }
    }
    Err(Fault::Absent("the bus does not greet".to_owned()))
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// By what it is found again: each file of secrets has a key of its own.
fn attributes(file: &Path) -> HashMap<String, String> {
    let file = file.to_string_lossy();
    [("application", "haft"), ("file", &*file), ("purpose", "secrets")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_bus_that_says_nothing_or_is_none_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bus");
        let _silent = UnixListener::bind(&path).expect("a socket");
        let until = Instant::now() + Duration::from_millis(20);
        for addresses in [&*format!("unix:path={}", path.display()), "unix:path=/none", "none", ""]
        {
            let opened = Keyring::open_until(addresses, until).map(|_| ());
            assert!(matches!(opened, Err(Fault::Absent(_))), "{addresses}");
        }
    }
}
