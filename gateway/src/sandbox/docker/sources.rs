//! The sources of our images, which this binary carries.

use std::io;

use sha2::{Digest, Sha256};
use tar::{Builder, Header};

/// A file of an image's sources.
struct Source {
    name: &'static str,
    text: &'static str,
    is_program: bool,
}

macro_rules! source {
    ($image:literal, $name:literal) => {
        source!($image, $name, false)
    };
    ($image:literal, $name:literal, $is_program:literal) => {
        Source {
            name: $name,
            text: include_str!(concat!("../../../../sandbox-images/", $image, "/", $name)),
            is_program: $is_program,
        }
    };
}

const PYTHON: [Source; 10] = [
    source!("python", "Dockerfile"),
    source!("python", "requirements.txt"),
    source!("python", "home.sh"),
    source!("python", "kernel.json"),
    source!("python", "jupyter_server_config.py"),
    source!("python", "start_jupyter.py"),
    source!("python", "start_kernel.py"),
    source!("python", "dead_mans_switch.py"),
    source!("python", "start", true),
    source!("python", "health", true),
];
const SCIENTIFIC: [Source; 2] = [source!("scientific", "Dockerfile"), source!("scientific", "requirements.txt")];

/// An image that can be built from what this binary carries.
pub(super) struct Ours {
    /// What it is called in the engine: another for other sources, so that an old one is never taken for it.
    pub(super) reference: String,
    /// The argument of its Dockerfile that says what it stands on, and what that is.
    pub(super) stands_on: (&'static str, String),
    sources: &'static [Source],
}

/// The image of that name, `python` or `scientific`, where the first one stands on `base`.
pub(super) fn ours(name: &str, base: &str) -> Ours {
    if name == "scientific" {
        let python = ours("python", base).reference;
        return image(name, ("PYTHON_IMAGE", python), &SCIENTIFIC);
    }
    image(name, ("BASE", base.to_owned()), &PYTHON)
}

/// What that image is called.
pub(in crate::sandbox) fn reference(name: &str, base: &str) -> String {
    ours(name, base).reference
}

fn image(name: &str, stands_on: (&'static str, String), sources: &'static [Source]) -> Ours {
    let mut digest = Sha256::new();
    digest.update(&stands_on.1);
    for source in sources {
        digest.update(source.name);
        digest.update([0]);
        digest.update(source.text);
        digest.update([0]);
    }
    let digest = hex::encode(digest.finalize());
    Ours { reference: format!("cellgate/{name}:{}", &digest[..12]), stands_on, sources }
}

impl Ours {
    /// The tar archive that a build begins with.
    pub(super) fn context(&self) -> io::Result<Vec<u8>> {
        let mut archive = Builder::new(Vec::new());
        for source in self.sources {
            let mut header = Header::new_gnu();
            header.set_size(source.text.len() as u64);
            header.set_mode(if source.is_program { 0o755 } else { 0o644 });
            archive.append_data(&mut header, source.name, source.text.as_bytes())?;
        }
        archive.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::ours;

    #[test]
    fn every_file_that_a_dockerfile_copies_is_carried() {
        for name in ["python", "scientific"] {
            let image = ours(name, "debian");
            let dockerfile = image.sources.iter().find(|source| source.name == "Dockerfile").unwrap().text;
            let copies = dockerfile.lines().filter_map(|line| line.strip_prefix("COPY "));
            for line in copies.filter(|line| !line.starts_with("--from")) {
                let mut names: Vec<&str> = line.split(' ').filter(|word| !word.starts_with("--")).collect();
                names.pop();
                for file in names {
                    assert!(image.sources.iter().any(|source| source.name == file), "{name}: {file}");
                }
            }
            assert!(dockerfile.contains(&format!("ARG {}", image.stands_on.0)));
        }
    }

    #[test]
    fn another_base_is_another_image() {
        assert_eq!(ours("python", "a").reference, ours("python", "a").reference);
        assert_ne!(ours("python", "a").reference, ours("python", "b").reference);
        assert_ne!(ours("scientific", "a").reference, ours("scientific", "b").reference);
    }
}
