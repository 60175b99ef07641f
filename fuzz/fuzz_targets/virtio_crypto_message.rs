//! Session messages of vhost-user front ends, and requests of guests: any bytes are parsed or refused, and a parsed message survives
//! writing and parsing.

#![no_main]

use gantry_abi_virtio_crypto::vhost_user::Create;
use gantry_abi_virtio_crypto::{Config, Features, control, data};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(create) = Create::parse(bytes) {
        let written = create.encode().expect("a parsed message has a layout");
        let again = Create::parse(&written).expect("the written message can be parsed");
        assert_eq!((again.layout, again.session), (create.layout, create.session));
        assert_eq!((again.key, again.auth_key), (create.key, create.auth_key));
    }
    if let Ok(config) = Config::parse(bytes) {
        assert_eq!(config.encode(), bytes[..Config::LENGTH]);
    }
    let Some((mask, bytes)) = bytes.split_first() else { return };
    let features = Features::from_bits(u64::from(*mask));
    if let Ok(header) = control::Header::parse(bytes)
        && let Ok(request) = control::Request::parse(&header, &bytes[control::HEADER_LEN..])
    {
        let written = request.encode(header.opcode >> 8, features);
        let header = control::Header::parse(&written).expect("the written request can be parsed");
        assert_eq!(control::Request::parse(&header, &written[control::HEADER_LEN..]), Ok(request));
    }
    if let Ok(header) = data::Header::parse(bytes)
        && let Ok(request) = data::Request::parse(&header, &bytes[data::HEADER_LEN..], features)
    {
        let written = request.encode(&header, features);
        assert_eq!(written.len(), data::HEADER_LEN + header.fixed_length(features).expect("it has a length"));
        assert_eq!(data::Request::parse(&header, &written[data::HEADER_LEN..], features), Ok(request));
        let ranges = request.readable_ranges(&header);
        assert!(ranges.source.end <= ranges.total_len && ranges.aad.end <= ranges.total_len);
    }
});
