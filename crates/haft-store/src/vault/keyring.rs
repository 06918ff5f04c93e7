//! Stores the key of the secrets in the keyring of the desktop, through the Secret Service protocol
//! (GNOME Keyring, KWallet, KeePassXC). Never prompts: a locked keyring is an error.

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
/// The object path that means "no object".
const NONE: &str = "/";
/// Limit for all answers of a keyring. A caller waits for them.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Session, parameters, value and the type of the value.
type DbusSecret = (Object<'static>, Vec<u8>, Vec<u8>, String);

/// The reason why a keyring cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyringError {
    /// No keyring is available.
    Absent(String),
    /// The user has to unlock it first.
    Locked,
}

impl From<dbus::Error> for KeyringError {
    fn from(error: dbus::Error) -> Self {
        match error.name() {
            Some(name) if name.ends_with(".IsLocked") => Self::Locked,
            name => Self::Absent(error.message().or(name).unwrap_or_default().to_owned()),
        }
    }
}

/// A keyring and an open session with it.
pub(super) struct Keyring {
    connection: Connection,
    deadline: Instant,
    session: Object<'static>,
}

impl Keyring {
    pub(super) fn open(addresses: &str) -> Result<Self, KeyringError> {
        Self::open_by(addresses, Instant::now() + ANSWER_TIMEOUT)
    }

    fn open_by(addresses: &str, deadline: Instant) -> Result<Self, KeyringError> {
        let channel = Channel::open_private(addresses)?;
        send_hello(&channel, deadline)?;
        let mut keyring = Self { connection: channel.into(), deadline, session: NONE.into() };
        // No encryption: the socket belongs to the user, and a process that can read it can query
        // the keyring too.
        let plain = ("plain", Variant(""));
        let (_, session): (Variant<String>, Object<'static>) =
            keyring.call_service("OpenSession", plain)?;
        keyring.session = session;
        Ok(keyring)
    }

    /// Returns the value stored for this file.
    pub(super) fn find(&self, file: &Path) -> Result<Option<Vec<u8>>, KeyringError> {
        let (open, locked): (Vec<Object<'static>>, Vec<Object<'static>>) =
            self.call_service("SearchItems", (attributes(file),))?;
        let item = match (open.into_iter().next(), locked.is_empty()) {
            (Some(item), _) => item,
            (None, true) => return Ok(None),
            (None, false) => self.unlocked(locked)?,
        };
        let ((_, _, value, _),): (DbusSecret,) =
            self.call(&item, OF_ITEM, "GetSecret", (&self.session,))?;
        Ok(Some(value))
    }

    /// Stores a value for this file and replaces an earlier one.
    pub(super) fn keep(&self, file: &Path, value: &[u8]) -> Result<(), KeyringError> {
        let (collection,): (Object<'static>,) = self.call_service("ReadAlias", ("default",))?;
        if &*collection == NONE {
            return Err(KeyringError::Absent("it has no default collection".to_owned()));
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
        if &*item == NONE { Err(KeyringError::Locked) } else { Ok(()) }
    }

    /// Unlocks these objects if that needs no prompt, and returns the first.
    fn unlocked(&self, objects: Vec<Object<'static>>) -> Result<Object<'static>, KeyringError> {
        let (unlocked, _prompt): (Vec<Object<'static>>, Object<'static>) =
            self.call_service("Unlock", (objects,))?;
        unlocked.into_iter().next().ok_or(KeyringError::Locked)
    }

    fn call_service<R: ReadAll>(
        &self,
        member: &str,
        arguments: impl AppendAll,
    ) -> Result<R, KeyringError> {
        self.call(&ROOT.into(), OF_SERVICE, member, arguments)
    }

    fn call<R: ReadAll>(
        &self,
        object: &Object<'_>,
        interface: &str,
        member: &str,
        arguments: impl AppendAll,
    ) -> Result<R, KeyringError> {
        let proxy = Proxy::new(SERVICE, object, time_left(self.deadline), &self.connection);
        Ok(proxy.method_call(interface, member, arguments)?)
    }
}

/// Sends the initial `Hello` to the bus. libdbus would wait forever for a bus that does not answer
/// it.
fn send_hello(channel: &Channel, deadline: Instant) -> Result<(), KeyringError> {
    let hello = Message::new_method_call(BUS, "/org/freedesktop/DBus", BUS, "Hello");
    let serial = channel.send(hello.map_err(KeyringError::Absent)?).ok();
    while !time_left(deadline).is_zero() {
        match channel.blocking_pop_message(time_left(deadline))? {
            Some(mut answer) if answer.get_reply_serial() == serial => {
                answer.as_result()?;
                return Ok(());
            }
            _ => {}
        }
    }
    Err(KeyringError::Absent("the bus does not answer".to_owned()))
}

fn time_left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Returns the attributes of the item. Each file of secrets has its own key.
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
    fn a_silent_or_missing_bus_fails_by_the_deadline() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bus");
        let _silent = UnixListener::bind(&path).expect("a socket");
        let deadline = Instant::now() + Duration::from_millis(20);
        for addresses in [&*format!("unix:path={}", path.display()), "unix:path=/none", "none", ""]
        {
            let opened = Keyring::open_by(addresses, deadline).map(|_| ());
            assert!(matches!(opened, Err(KeyringError::Absent(_))), "{addresses}");
        }
    }
}
