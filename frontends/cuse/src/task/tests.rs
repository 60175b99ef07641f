use super::*;
use crate::session::Maker;

const NULL: u32 = 16;
const HMAC_SHA1: u32 = 7;

fn shape(cipher: u32, key: &[u8], mac: u32, mac_key: &[u8]) -> Arc<Shape> {
    let gantry = gantry_runtime::open(gantry_runtime::Config::default()).unwrap();
    Arc::new(Maker::new(gantry).make(cipher, key, mac, mac_key).unwrap())
}

#[test]
fn the_null_cipher_is_served_and_leaves_data_as_they_are() {
    let shape = shape(NULL, &[], HMAC_SHA1, b"a key");
    let mac = shape.hash.as_ref().unwrap().session.clone();
    let mut expected = [0; 20];
    mac.mac(b"in the clear", &mut expected).unwrap();
    for encrypt in [true, false] {
        let data = 0..12;
        let job = Job { session: 1, encrypt, flags: 0, iv: 0..0, data, form: Form::Plain, answer: b"answer".to_vec() };
        let mut task = Task::new(shape.clone(), State::new(), job, b"in the clear".to_vec().into());
        task.run();
        assert_eq!(task.result(), Ok(vec![&b"in the clear"[..], &expected, b"answer"]));
    }
}
