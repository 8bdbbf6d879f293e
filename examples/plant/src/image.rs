//! A plant's process image: the contents of its memory area.

/// Octets of an image.
pub const SIZE: usize = 256;

/// Pressure and temperature of one moment. The rest of the area repeats the counter, so that a
/// display can tell an image from a mixture of two.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Image {
    /// The number of the plant.
    pub plant: u32,
    /// The run of its process.
    pub run: u32,
    /// Images so far in this run.
    pub count: u64,
    /// Bar.
    pub pressure: f64,
    /// Degrees Celsius.
    pub temperature: f64,
}

impl Image {
    /// The plant at its `count`-th moment.
    pub fn at(plant: u32, run: u32, count: u64) -> Image {
        let phase = count as f64 / 50.0 + f64::from(plant);
        Image {
            plant,
            run,
            count,
            pressure: 3.0 + phase.sin(),
            temperature: 180.0 + 20.0 * (phase / 3.0).cos(),
        }
    }

    /// Writes it as it lies in memory.
    pub fn write(&self, out: &mut [u8; SIZE]) {
        out[..4].copy_from_slice(&self.plant.to_le_bytes());
        out[4..8].copy_from_slice(&self.run.to_le_bytes());
        out[8..16].copy_from_slice(&self.count.to_le_bytes());
        out[16..24].copy_from_slice(&self.pressure.to_le_bytes());
        out[24..32].copy_from_slice(&self.temperature.to_le_bytes());
        for word in out[32..].chunks_exact_mut(8) {
            word.copy_from_slice(&self.count.to_le_bytes());
        }
    }

    /// Reads an image. None where no plant wrote these octets.
    pub fn read(octets: &[u8]) -> Option<Image> {
        let octets: &[u8; SIZE] = octets.try_into().ok()?;
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| octets[at + i]));
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| octets[at + i]));
        let image = Image::at(half(0), half(4), number(8));
        let mut expected = [0; SIZE];
        image.write(&mut expected);
        (expected == *octets).then_some(image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixture_of_two_images_is_none() {
        let (mut one, mut two) = ([0; SIZE], [0; SIZE]);
        Image::at(1, 1, 7).write(&mut one);
        Image::at(1, 1, 8).write(&mut two);
        assert_eq!(Image::read(&one), Some(Image::at(1, 1, 7)));
        for cut in 12..SIZE - 8 {
            let mixed = [&one[..cut], &two[cut..]].concat();
            assert_eq!(Image::read(&mixed), None, "cut at {cut}");
        }
    }
}
