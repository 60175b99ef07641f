//! Guest memory: regions at guest addresses, each a memfd that the back end maps, too.

use std::fs::File;
use std::os::fd::OwnedFd;

use nix::sys::memfd::{MFdFlags, memfd_create};
use vhost::VhostUserMemoryRegionInfo;
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};

use crate::Error;

/// The alignment of addresses of [`Memory::allocate`]: a cache line.
const ALIGNMENT: u64 = 64;

/// A guest's memory. Clones share it.
#[derive(Clone)]
pub struct Memory {
    map: GuestMemoryMmap,
    /// The first free byte of each region.
    next_free: Vec<u64>,
}

impl Memory {
    /// Creates memory of these regions: guest address and bytes of each, by ascending address.
    pub fn new(regions: &[(u64, usize)]) -> Result<Self, Error> {
        let mut ranges = Vec::with_capacity(regions.len());
        for (address, bytes) in regions {
            let file = File::from(create_memfd()?);
            file.set_len(*bytes as u64)?;
            ranges.push((GuestAddress(*address), *bytes, Some(FileOffset::new(file, 0))));
        }
        let map = GuestMemoryMmap::from_ranges_with_files(ranges).map_err(Error::memory)?;
        Ok(Self { map, next_free: regions.iter().map(|region| region.0).collect() })
    }

    /// Takes `bytes` unused bytes of a region, and returns their guest address.
    pub fn allocate(&mut self, region: usize, bytes: usize) -> Result<u64, Error> {
        let end = self.map.iter().nth(region).map(|region| region.last_addr().0);
        let (Some(end), Some(next)) = (end, self.next_free.get_mut(region)) else { return Err(Error::Full) };
        let begin = next.next_multiple_of(ALIGNMENT);
        match begin.checked_add(bytes as u64) {
            Some(behind) if behind <= end + 1 => {
                *next = behind;
                Ok(begin)
            }
            _ => Err(Error::Full),
        }
    }

    /// Returns the regions for `VHOST_USER_SET_MEM_TABLE`.
    pub fn regions(&self) -> Result<Vec<VhostUserMemoryRegionInfo>, Error> {
        self.map
            .iter()
            .map(VhostUserMemoryRegionInfo::from_guest_region)
            .collect::<Result<_, _>>()
            .map_err(Error::memory)
    }

    /// Translates a guest address to an address in this process: vhost-user identifies rings by addresses in the front end.
    pub fn user_address(&self, address: u64) -> Result<u64, Error> {
        Ok(self.map.get_host_address(GuestAddress(address)).map_err(Error::memory)? as u64)
    }

    /// Writes bytes, which may cross regions.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.map.write_slice(bytes, GuestAddress(address)).map_err(Error::memory)
    }

    /// Reads `bytes` bytes.
    pub fn read(&self, address: u64, bytes: usize) -> Result<Vec<u8>, Error> {
        let mut buffer = vec![0; bytes];
        self.map.read_slice(&mut buffer, GuestAddress(address)).map_err(Error::memory)?;
        Ok(buffer)
    }

    /// Changes the size of a region's memfd only: the mappings of both sides stay as they are. A side that then touches a page
    /// beyond the end gets SIGBUS.
    pub fn truncate(&self, region: usize, bytes: u64) -> Result<(), Error> {
        let file = self.map.iter().nth(region).and_then(|region| region.file_offset()).ok_or(Error::Full)?;
        Ok(file.file().set_len(bytes)?)
    }

    /// Returns the mapped memory, for atomic accesses.
    pub(crate) fn map(&self) -> &GuestMemoryMmap {
        &self.map
    }
}

fn create_memfd() -> Result<OwnedFd, Error> {
    Ok(memfd_create(c"guest", MFdFlags::MFD_CLOEXEC).map_err(std::io::Error::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGIONS: [(u64, usize); 2] = [(0x1000, 0x4000), (0x10_0000, 0x2000)];

    #[test]
    fn taken_bytes_do_not_overlap() {
        let mut memory = Memory::new(&REGIONS).unwrap();
        let first = memory.allocate(0, 100).unwrap();
        let second = memory.allocate(0, 100).unwrap();
        assert_eq!((first, second), (0x1000, 0x1080));
        assert_eq!(memory.allocate(1, 0x2000).unwrap(), 0x10_0000);
    }

    #[test]
    fn a_full_or_missing_region_gives_no_bytes() {
        let mut memory = Memory::new(&REGIONS).unwrap();
        memory.allocate(0, 0x4000).unwrap();
        for (region, bytes) in [(0, 1), (1, 0x2001), (2, 1), (1, usize::MAX)] {
            assert!(matches!(memory.allocate(region, bytes), Err(Error::Full)), "{bytes} of region {region}");
        }
    }

    #[test]
    fn other_users_of_the_file_see_writes() {
        let memory = Memory::new(&REGIONS).unwrap();
        memory.write(0x10_0010, b"guest").unwrap();
        let region = memory.map.iter().nth(1).unwrap();
        let file = region.file_offset().unwrap();
        let mut seen = [0; 5];
        std::os::unix::fs::FileExt::read_exact_at(file.file(), &mut seen, 0x10).unwrap();
        assert_eq!(&seen, b"guest");
    }

    #[test]
    fn an_address_in_no_region_is_an_error() {
        let memory = Memory::new(&REGIONS).unwrap();
        assert!(memory.write(0x5000, &[0]).is_err());
        assert!(memory.read(0x4ff0, 0x11).is_err());
        assert!(memory.user_address(0).is_err());
    }
}
