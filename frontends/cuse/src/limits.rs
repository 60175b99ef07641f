use std::collections::HashMap;

/// What one user may have at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions, of all files together. One more is ENOMEM.
    pub sessions: usize,
    /// Bytes of long requests in work. A request that is larger by itself is ENOMEM; one that does not fit now waits.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions: 4096, bytes: 64 << 20 }
    }
}

/// Who has how much.
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

/// The answer to somebody who wants to begin something large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Now,
    Later,
    Never,
}

impl Users {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, users: HashMap::new() }
    }

    /// One more session; false when there may not be one.
    pub(crate) fn open(&mut self, uid: u32) -> bool {
        let usage = self.users.entry(uid).or_default();
        let room = usage.sessions < self.limits.sessions;
        usage.sessions += usize::from(room);
        room
    }

    pub(crate) fn close(&mut self, uid: u32, sessions: usize) {
        self.change(uid, |usage| usage.sessions -= sessions);
    }

    pub(crate) fn room(&self, uid: u32, bytes: usize) -> Room {
        let used = self.users.get(&uid).map_or(0, |usage| usage.bytes);
        match bytes {
            _ if bytes > self.limits.bytes => Room::Never,
            _ if used + bytes > self.limits.bytes => Room::Later,
            _ => Room::Now,
        }
    }

    pub(crate) fn begin(&mut self, uid: u32, bytes: usize) {
        self.users.entry(uid).or_default().bytes += bytes;
    }

    pub(crate) fn end(&mut self, uid: u32, bytes: usize) {
        self.change(uid, |usage| usage.bytes -= bytes);
    }

    /// Users that have nothing are forgotten.
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
    fn each_user_has_limits_of_their_own() {
        let mut users = Users::new(Limits { sessions: 2, bytes: 100 });
        assert!(users.open(1) && users.open(1) && !users.open(1) && users.open(2));
        users.close(1, 1);
        assert!(users.open(1) && !users.open(1));
        assert_eq!(users.room(1, 101), Room::Never);
        users.begin(1, 60);
        assert_eq!((users.room(1, 40), users.room(1, 41), users.room(2, 100)), (Room::Now, Room::Later, Room::Now));
        users.end(1, 60);
        assert_eq!(users.room(1, 100), Room::Now);
        users.close(1, 2);
        users.close(2, 1);
        assert!(users.users.is_empty(), "nobody is remembered who has nothing");
    }
}
