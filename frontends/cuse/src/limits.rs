//! The resources of each user, and their limits.

use std::collections::HashMap;

/// Most resources of a user at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of sessions in all files together. A further session fails with ENOMEM.
    pub sessions: usize,
    /// Bytes of long requests in progress. A single request above this limit fails with ENOMEM. A request within the limit waits if the
    /// requests in progress leave too few bytes.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions: 4096, bytes: 64 << 20 }
    }
}

/// Resources of all users.
#[derive(Debug)]
pub(crate) struct Users {
    limits: Limits,
    users: HashMap<u32, Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    sessions: usize,
    bytes: usize,
}

/// The answer to a user that wants to begin a large request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Now,
    Later,
    Never,
}

impl Users {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, users: HashMap::new() }
    }

    /// Adds a session. Returns `false` if the limit is reached.
    pub(crate) fn open(&mut self, uid: u32) -> bool {
        let usage = self.users.entry(uid).or_default();
        let has_room = usage.sessions < self.limits.sessions;
        usage.sessions += usize::from(has_room);
        has_room
    }

    pub(crate) fn close(&mut self, uid: u32, sessions: usize) {
        self.change(uid, |usage| usage.sessions -= sessions);
    }

    pub(crate) fn admit(&self, uid: u32, bytes: usize) -> Admission {
        let used = self.users.get(&uid).map_or(0, |usage| usage.bytes);
        match bytes {
            _ if bytes > self.limits.bytes => Admission::Never,
            _ if used + bytes > self.limits.bytes => Admission::Later,
            _ => Admission::Now,
        }
    }

    pub(crate) fn begin(&mut self, uid: u32, bytes: usize) {
        self.users.entry(uid).or_default().bytes += bytes;
    }

    pub(crate) fn end(&mut self, uid: u32, bytes: usize) {
        self.change(uid, |usage| usage.bytes -= bytes);
    }

    /// Changes the usage of a user, and forgets a user without resources.
    fn change(&mut self, uid: u32, change: impl Fn(&mut Usage)) {
        if let Some(usage) = self.users.get_mut(&uid) {
            change(usage);
            if usage.sessions == 0 && usage.bytes == 0 {
                self.users.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_apply_to_each_user_separately() {
        let mut users = Users::new(Limits { sessions: 2, bytes: 100 });
        assert!(users.open(1) && users.open(1) && !users.open(1) && users.open(2));
        users.close(1, 1);
        assert!(users.open(1) && !users.open(1));
        assert_eq!(users.admit(1, 101), Admission::Never);
        users.begin(1, 60);
        assert_eq!(
            (users.admit(1, 40), users.admit(1, 41), users.admit(2, 100)),
            (Admission::Now, Admission::Later, Admission::Now)
        );
        users.end(1, 60);
        assert_eq!(users.admit(1, 100), Admission::Now);
        users.close(1, 2);
        users.close(2, 1);
        assert!(users.users.is_empty(), "users without resources are forgotten");
    }
}
