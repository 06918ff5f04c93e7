//! A file or directory in `.haft` that haft cannot write: its owner, and how to fix that.

/// Owner and permissions of a path in `.haft` that haft cannot write.
#[derive(Clone, Debug)]
pub struct UnwritablePath<'a> {
    /// The path, as shown to people.
    pub path: &'a str,
    /// User id of its owner.
    pub owner: u32,
    /// User id of this process.
    pub own: u32,
    /// Permission bits.
    pub mode: u32,
    /// The text of `/etc/passwd`, for user names.
    pub users: &'a str,
}

impl UnwritablePath<'_> {
    /// The reason, as the end of a message.
    pub fn reason(&self) -> String {
        let Self { path, owner, own, mode, .. } = self;
        let begin = format!("haft cannot write to `{path}`");
        if owner == own {
            return format!("{begin}: its permissions are {:04o}", mode & 0o7777);
        }
        let (owner, own) = (self.user(*owner), self.user(*own));
        format!("{begin}: it belongs to {owner}, and haft runs as {own}")
    }

    /// The command that fixes it.
    pub fn next_step(&self) -> String {
        let Self { owner, own, .. } = self;
        let path = self.quoted();
        if owner == own {
            return format!("run `chmod -R u+rwX {path}` and call again");
        }
        let change = format!("run `sudo chown -R {own} {path}` and call again");
        match owner {
            0 => change,
            owner => format!("{change}, or run haft as {}", self.user(*owner)),
        }
    }

    /// The path as a word for the shell.
    fn quoted(&self) -> String {
        let is_plain = |c: char| c.is_alphanumeric() || "/._-+@".contains(c);
        match self.path.chars().all(is_plain) {
            true => self.path.to_owned(),
            false => format!("'{}'", self.path.replace('\'', r"'\''")),
        }
    }

    fn user(&self, id: u32) -> String {
        let is_it =
            |fields: &Vec<&str>| fields.get(2).is_some_and(|known| *known == id.to_string());
        let lines = self.users.lines().map(|line| line.split(':').collect::<Vec<&str>>());
        let name =
            lines.filter(is_it).find_map(|fields| fields.first().map(|name| name.to_string()));
        match name {
            Some(name) => format!("{name} (uid {id})"),
            None => format!("uid {id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_and_fix_are_named() {
        let users = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n";
        let closed = UnwritablePath { path: "/w/.haft", owner: 0, own: 1000, mode: 0o40755, users };
        let reason = "haft cannot write to `/w/.haft`: it belongs to root (uid 0), and haft runs as ada (uid 1000)";
        assert_eq!(closed.reason(), reason);
        assert_eq!(closed.next_step(), "run `sudo chown -R 1000 /w/.haft` and call again");
        let hers = UnwritablePath { path: "/a b/.haft", owner: 1000, own: 7, ..closed.clone() };
        let step =
            "run `sudo chown -R 7 '/a b/.haft'` and call again, or run haft as ada (uid 1000)";
        assert_eq!(hers.next_step(), step);
        let own = UnwritablePath { owner: 1000, mode: 0o40555, ..closed.clone() };
        assert_eq!(own.reason(), "haft cannot write to `/w/.haft`: its permissions are 0555");
        assert_eq!(own.next_step(), "run `chmod -R u+rwX /w/.haft` and call again");
        let unknown = UnwritablePath { owner: 7, users: "", ..closed };
        assert!(unknown.reason().contains("belongs to uid 7, and haft runs as uid 1000"));
    }
}
