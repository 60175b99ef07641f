//! Reads and writes the attributes of SAs. A new attribute needs an arm in [`parse_content`] and a statement in [`write()`].

use crate::bytes::{Reader, Write};
use crate::constants::attribute;
use crate::netlink::Datagram;
use crate::parts::{Counters, Mark, write_mark_and_interface_id};
use crate::sa::{
    Encapsulation, Key, KeyVisibility, NamedAead, NamedAlgorithm, NamedAuthentication, Offload, Replay, ReplayEsn, Sa,
};
use crate::{Error, Family};

/// Bytes of an algorithm's name, including its NUL.
const NAME_SIZE: usize = 64;

/// Reads an attribute into `sa`. The later of two attributes with the same number wins, as in Linux.
pub(crate) fn parse(sa: &mut Sa, kind: u16, content: &[u8]) -> Result<(), Error> {
    parse_content(sa, kind, content).map_err(|error| match error {
        Error::Short => Error::Attribute(kind),
        other => other,
    })
}

fn parse_content(sa: &mut Sa, kind: u16, content: &[u8]) -> Result<(), Error> {
    let reader = &mut Reader(content);
    let family = sa.id.family();
    match kind {
        attribute::ALG_CRYPT => sa.cipher = Some(parse_algorithm(kind, reader)?),
        attribute::ALG_COMP => sa.compression = Some(parse_algorithm(kind, reader)?),
        attribute::ALG_AUTH => {
            // Linux ignores ALG_AUTH if the message also has ALG_AUTH_TRUNC, which contains the length of the tag.
            if sa.authentication.as_ref().is_none_or(|authentication| authentication.icv_bits.is_none()) {
                let NamedAlgorithm { name, key } = parse_algorithm(kind, reader)?;
                sa.authentication = Some(NamedAuthentication { name, key, icv_bits: None });
            }
        }
        attribute::ALG_AUTH_TRUNC => {
            let (name, key, icv_bits) = parse_algorithm_with_icv(kind, reader)?;
            sa.authentication = Some(NamedAuthentication { name, key, icv_bits: Some(icv_bits) });
        }
        attribute::ALG_AEAD => {
            let (name, key, icv_bits) = parse_algorithm_with_icv(kind, reader)?;
            sa.aead = Some(NamedAead { name, key, icv_bits });
        }
        attribute::ENCAP => sa.encapsulation = Some(parse_encapsulation(family, reader)?),
        attribute::REPLAY_VAL => sa.replay = Some(parse_replay(reader)?),
        attribute::REPLAY_ESN_VAL => sa.replay_esn = Some(parse_replay_esn(kind, reader)?),
        attribute::REPLAY_THRESH => sa.replay_threshold = Some(reader.u32()?),
        attribute::ETIMER_THRESH => sa.timer_threshold = Some(reader.u32()?),
        attribute::LTIME_VAL => sa.counters = Counters::parse(reader)?,
        attribute::MARK => sa.mark = Some(Mark::parse(reader)?),
        // SET_MARK and SET_MARK_MASK may come in either order. Without SET_MARK_MASK, the mask has all bits.
        attribute::SET_MARK => {
            let mask = sa.set_mark.map_or(u32::MAX, |mark| mark.mask);
            sa.set_mark = Some(Mark { value: reader.u32()?, mask });
        }
        attribute::SET_MARK_MASK => {
            let value = sa.set_mark.map_or(0, |mark| mark.value);
            sa.set_mark = Some(Mark { value, mask: reader.u32()? });
        }
        attribute::IF_ID => sa.interface_id = reader.u32()?,
        attribute::TFCPAD => sa.tfc_padding = reader.u32()?,
        attribute::SA_EXTRA_FLAGS => sa.extra_flags = reader.u32()?,
        attribute::COADDR => sa.care_of = Some(reader.address()?.to_ip(family)),
        attribute::OFFLOAD_DEV => {
            sa.offload = Some(Offload { interface_index: reader.u32()?.cast_signed(), flags: reader.u8()? });
        }
        attribute::MTIMER_THRESH => sa.mapping_threshold = Some(reader.u32()?),
        attribute::SA_DIR => sa.direction = Some(reader.u8()?),
        attribute::LASTUSED => sa.last_used = Some(reader.u64()?),
        // `struct xfrm_usersa_info` also contains the source address, so SRCADDR is redundant; PAD is empty.
        attribute::SRCADDR | attribute::PAD => {}
        other => sa.unknown.push(other),
    }
    Ok(())
}

/// Writes the attributes of `sa`, in the order of Linux's `copy_to_user_state_extra`. REPLAY_THRESH and
/// ETIMER_THRESH, which that function does not write, follow the replay state.
pub(crate) fn write(sa: &Sa, key_visibility: KeyVisibility, to: &mut Datagram) {
    let write_optional_u32 = |to: &mut Datagram, kind, value: Option<u32>| {
        if let Some(value) = value {
            to.attribute(kind, |to| to.u32(value));
        }
    };
    let unless_zero = |value| (value != 0).then_some(value);

    write_optional_u32(to, attribute::SA_EXTRA_FLAGS, unless_zero(sa.extra_flags));
    if let Some(address) = sa.care_of {
        to.attribute(attribute::COADDR, |to| to.address(address));
    }
    if let Some(time) = sa.last_used {
        to.attribute(attribute::LASTUSED, |to| to.u64(time));
    }
    if let Some(NamedAead { name, key, icv_bits }) = &sa.aead {
        to.attribute(attribute::ALG_AEAD, |to| write_algorithm(name, key, Some(*icv_bits), key_visibility, to));
    }
    if let Some(NamedAuthentication { name, key, icv_bits }) = &sa.authentication {
        let kind = if icv_bits.is_some() { attribute::ALG_AUTH_TRUNC } else { attribute::ALG_AUTH };
        to.attribute(kind, |to| write_algorithm(name, key, *icv_bits, key_visibility, to));
    }
    for (kind, algorithm) in [(attribute::ALG_CRYPT, &sa.cipher), (attribute::ALG_COMP, &sa.compression)] {
        if let Some(NamedAlgorithm { name, key }) = algorithm {
            to.attribute(kind, |to| write_algorithm(name, key, None, key_visibility, to));
        }
    }
    if let Some(encapsulation) = &sa.encapsulation {
        to.attribute(attribute::ENCAP, |to| {
            to.u16(encapsulation.kind);
            to.be16(encapsulation.source_port);
            to.be16(encapsulation.destination_port);
            to.u16(0);
            to.address(encapsulation.original);
        });
    }
    write_optional_u32(to, attribute::TFCPAD, unless_zero(sa.tfc_padding));
    if let Some(mark) = sa.mark {
        to.attribute(attribute::MARK, |to| mark.write(to));
    }
    write_optional_u32(to, attribute::SET_MARK, sa.set_mark.map(|mark| mark.value));
    write_optional_u32(to, attribute::SET_MARK_MASK, sa.set_mark.map(|mark| mark.mask));
    write_replay(sa.replay.as_ref(), sa.replay_esn.as_ref(), to);
    write_optional_u32(to, attribute::REPLAY_THRESH, sa.replay_threshold);
    write_optional_u32(to, attribute::ETIMER_THRESH, sa.timer_threshold);
    if let Some(offload) = sa.offload {
        to.attribute(attribute::OFFLOAD_DEV, |to| {
            to.u32(offload.interface_index.cast_unsigned());
            to.u8(offload.flags);
            to.zeros(3);
        });
    }
    write_optional_u32(to, attribute::IF_ID, unless_zero(sa.interface_id));
    write_optional_u32(to, attribute::MTIMER_THRESH, sa.mapping_threshold);
    if let Some(direction) = sa.direction {
        to.attribute(attribute::SA_DIR, |to| to.u8(direction));
    }
    // The content of unknown attributes is not kept. They are written empty, so that the reader sees their numbers.
    for &unknown in &sa.unknown {
        to.attribute(unknown, |_| {});
    }
}

/// Writes the attributes that an EXPIRE message adds to the SA's structure, in the order of Linux.
pub(crate) fn write_expire_attributes(sa: &Sa, to: &mut Datagram) {
    write_mark_and_interface_id(sa.mark, sa.interface_id, to);
    if let Some(direction) = sa.direction {
        to.attribute(attribute::SA_DIR, |to| to.u8(direction));
    }
}

/// Writes the replay states that are present.
pub(crate) fn write_replay(replay: Option<&Replay>, esn: Option<&ReplayEsn>, to: &mut Datagram) {
    if let Some(replay) = replay {
        to.attribute(attribute::REPLAY_VAL, |to| {
            for value in [replay.output, replay.input, replay.bitmap] {
                to.u32(value);
            }
        });
    }
    if let Some(esn) = esn {
        to.attribute(attribute::REPLAY_ESN_VAL, |to| {
            let (low, high) = (|value: u64| value as u32, |value: u64| (value >> 32) as u32);
            let bitmap = &esn.bitmap[..esn.bitmap.len().min(ReplayEsn::MAX_BITMAP_WORDS)];
            to.u32(bitmap.len() as u32);
            for value in [low(esn.output), low(esn.input), high(esn.output), high(esn.input), esn.window] {
                to.u32(value);
            }
            for &word in bitmap {
                to.u32(word);
            }
        });
    }
}

pub(crate) fn parse_replay(reader: &mut Reader<'_>) -> Result<Replay, Error> {
    Ok(Replay { output: reader.u32()?, input: reader.u32()?, bitmap: reader.u32()? })
}

pub(crate) fn parse_replay_esn(kind: u16, reader: &mut Reader<'_>) -> Result<ReplayEsn, Error> {
    let bitmap_words = reader.u32()? as usize;
    let (output, input) = (reader.u32()?, reader.u32()?);
    let (output_high, input_high) = (reader.u32()?, reader.u32()?);
    let window = reader.u32()?;
    if bitmap_words > ReplayEsn::MAX_BITMAP_WORDS {
        return Err(Error::Attribute(kind));
    }
    // Linux accepts the attribute without its bitmap, which is zero then. iproute2 never sends the bitmap.
    let bitmap: Vec<u32> = if reader.0.is_empty() {
        vec![0; bitmap_words]
    } else {
        (0..bitmap_words).map(|_| reader.u32()).collect::<Result<_, _>>()?
    };
    if window as usize > 32 * bitmap_words {
        return Err(Error::Value("replay_window"));
    }
    let join = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    Ok(ReplayEsn { output: join(output_high, output), input: join(input_high, input), window, bitmap })
}

/// Reads `struct xfrm_algo`: a cipher, a compression, or an authentication with the default tag length.
fn parse_algorithm(kind: u16, reader: &mut Reader<'_>) -> Result<NamedAlgorithm, Error> {
    let name = parse_name(kind, reader)?;
    let key_bits = reader.u32()?;
    let key = Key::parse(key_bits, reader.0).ok_or(Error::Attribute(kind))?;
    Ok(NamedAlgorithm { name, key })
}

/// Reads `struct xfrm_algo_aead` or `struct xfrm_algo_auth`, which have the same layout.
fn parse_algorithm_with_icv(kind: u16, reader: &mut Reader<'_>) -> Result<(String, Key, u32), Error> {
    let name = parse_name(kind, reader)?;
    let (key_bits, icv_bits) = (reader.u32()?, reader.u32()?);
    let key = Key::parse(key_bits, reader.0).ok_or(Error::Attribute(kind))?;
    Ok((name, key, icv_bits))
}

/// Reads a name up to its NUL. The last byte counts as NUL, as in Linux.
fn parse_name(kind: u16, reader: &mut Reader<'_>) -> Result<String, Error> {
    let name = &reader.take(NAME_SIZE)?[..NAME_SIZE - 1];
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    str::from_utf8(name).map(str::to_owned).map_err(|_| Error::Attribute(kind))
}

fn parse_encapsulation(family: Family, reader: &mut Reader<'_>) -> Result<Encapsulation, Error> {
    let (kind, source_port, destination_port) = (reader.u16()?, reader.be16()?, reader.be16()?);
    reader.skip(2)?;
    Ok(Encapsulation { kind, source_port, destination_port, original: reader.address()?.to_ip(family) })
}

/// Writes `struct xfrm_algo`; with `icv_bits`, writes the layout that [`parse_algorithm_with_icv`] reads. Truncates the name to 63 bytes.
fn write_algorithm(name: &str, key: &Key, icv_bits: Option<u32>, key_visibility: KeyVisibility, to: &mut Datagram) {
    let mut end = name.len().min(NAME_SIZE - 1);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    to.bytes(&name.as_bytes()[..end]);
    to.zeros(NAME_SIZE - end);
    to.u32(key.bits());
    if let Some(icv_bits) = icv_bits {
        to.u32(icv_bits);
    }
    match key_visibility {
        KeyVisibility::Shown => to.bytes(key.bytes()),
        KeyVisibility::Zeros => to.zeros(key.bytes().len()),
    }
}
