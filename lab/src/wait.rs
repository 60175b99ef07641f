use std::time::{Duration, Instant};

/// Time after which a wait fails: long enough for a busy machine, because only failing tests take all of it.
const EVENT_TIMEOUT: Duration = Duration::from_mins(2);

/// Waits until something has happened in another thread, process or guest. Looks every 5 ms.
///
/// # Panics
/// If it has not happened after two minutes.
#[track_caller]
pub fn wait_until(what: &str, mut has_happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !has_happened() {
        assert!(start.elapsed() < EVENT_TIMEOUT, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_until_the_event_has_happened() {
        let mut checks = 0;
        wait_until("the third check", || {
            checks += 1;
            checks == 3
        });
        assert_eq!(checks, 3);
    }
}
