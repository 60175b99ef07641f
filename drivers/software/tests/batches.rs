//! Batches of any mix of sessions and algorithms.

use gantry_core::{Algorithm, Error, Gantry, Outcome, Request, Session, SessionParams};
use gantry_driver_software::SoftwareDriver;

#[test]
fn batches_mix_sessions_and_a_mistake_affects_only_its_request() {
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    let session = |algorithm, key: &[u8]| gantry.session(SessionParams::new(algorithm, key)).unwrap();
    let (aead, digest) = (session(Algorithm::Aes128Gcm, &[7; 16]), session(Algorithm::Sha256, &[]));
    let other = session(Algorithm::Aes128Gcm, &[9; 16]);
    let (mut data, mut tags, mut digests) = ([[7; 32]; 4], [[0; 16]; 4], [[0; 32]; 2]);
    let [sealed, other_data, wrong, forged] = &mut data;
    let [first, second, third, fourth] = &mut tags;
    let [one, two] = &mut digests;
    let sessions = [&aead, &digest, &other, &aead, &aead, &digest, &aead];
    let mut sum = 0;
    let mut requests = [
        Request::seal(&[1; 12], &[], sealed, first),
        Request::digest(b"abc", one),
        Request::seal(&[1; 12], &[], other_data, second),
        Request::seal(&[1; 0], &[], wrong, third),
        Request::open(&[1; 12], &[], forged, fourth),
        Request::digest(b"abc", two),
        // An operation that this session does not have.
        Request::decompress(&[], &mut [], &mut sum),
    ];
    Session::process_each(&sessions, &mut requests).unwrap();
    let results = requests.each_mut().map(Request::result);
    assert_eq!([0, 1, 2, 5].map(|index| results[index].clone()), [const { Ok(Outcome::Done) }; 4]);
    assert_eq!(results[4], Ok(Outcome::BadTag));
    for index in [3, 6] {
        assert!(matches!(results[index], Err(Error::Misuse(_))), "{index}: {:?}", results[index]);
    }
    assert_eq!(data[2], [7; 32]);
    assert!(digests[0] == digests[1] && data[0] != data[1] && data[0] != [7; 32]);
    for (session, at) in [(&aead, 0), (&other, 1)] {
        session.open(&[1; 12], &[], &mut data[at][..], &tags[at]).unwrap();
        assert_eq!(data[at], [7; 32]);
    }
}
