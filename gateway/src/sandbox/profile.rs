//! What an operator lets callers choose: profiles by name (`environment`), and images.

use std::collections::BTreeMap;
use std::str::FromStr;

use globset::{Glob, GlobMatcher};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::size::Size;
use super::{LaunchRequest, ProviderError, check_variables};

/// The profile of a launch that names none; what it says holds for all others that don't say otherwise.
const DEFAULT: &str = "default";
/// Images that are built from sources in this binary, which are profiles as well.
const OURS: [&str; 2] = ["python", "scientific"];
const MEMORY: Size = Size(2 << 30);
const LEAST_MEMORY: Size = Size(192 << 20);
const CPU: f64 = 2.0;
const LEAST_CPU: f64 = 0.1;
/// Jupyter, and a kernel with the threads of its libraries.
const LEAST_PIDS: u32 = 64;
/// As many as Linux has.
const MOST_PIDS: u32 = 1 << 22;
const MOST_CPU: f64 = 1024.0;
const MOST: Size = Size(64 << 40);
const LEAST_DISK: Size = Size(64 << 20);

/// The wishes that images, their limits and the fleet keep.
const KEPT: [&str; 9] = [
    "environment",
    "environment_version",
    "gpu",
    "image",
    "cpu",
    "memory",
    "env",
    "ttl_seconds",
    "idle_timeout_seconds",
];

/// What a sandbox may reach.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Egress {
    /// Nothing.
    None,
    /// The internet, but no private network and no cloud's metadata.
    #[default]
    Internet,
    /// Everything.
    Open,
}

/// One profile, as it stands in the configuration file under `[environments.<name>]`. What is missing is as in
/// `[environments.default]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The image: a reference, or `python` or `scientific` for one of ours.
    image: Option<String>,
    /// The tags that a caller may choose as `environment_version`.
    #[serde(default)]
    versions: Vec<String>,
    /// The most memory.
    #[serde(default, deserialize_with = "text_or_number")]
    memory: Option<Size>,
    /// The most cores.
    cpu: Option<f64>,
    /// The most processes and threads.
    pids: Option<u32>,
    /// The most that the home and the workspace may hold, each.
    #[serde(default, deserialize_with = "text_or_number")]
    disk: Option<Size>,
    /// GPUs: a number, or `all`.
    #[serde(default, deserialize_with = "text_or_number")]
    gpu: Option<Gpu>,
    /// What it may reach.
    egress: Option<Egress>,
    /// The container runtime, such as `runsc`; in a cluster the runtime class.
    runtime: Option<String>,
    /// What its pods are like besides, in a cluster.
    pod: Option<PodOptions>,
}

/// What an operator says of pods besides: parts of its specification, in Kubernetes' own form. Callers never see them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct PodOptions {
    #[serde(default)]
    pub(super) node_selector: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) tolerations: Vec<Toleration>,
    #[serde(default)]
    pub(super) image_pull_secrets: Vec<String>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
}

/// A toleration, as a pod has it.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Toleration {
    key: Option<String>,
    operator: Option<String>,
    value: Option<String>,
    effect: Option<String>,
    #[serde(rename = "tolerationSeconds")]
    seconds: Option<i64>,
}

/// All profiles, and the images that callers may name.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    by_name: BTreeMap<String, Profile>,
    images: Vec<GlobMatcher>,
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Image {
    /// One that is built from sources in this binary.
    Ours(&'static str),
    /// Any other, by its reference.
    Named(String),
}

/// What a launch gets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resources {
    pub(super) image: Image,
    pub(super) memory: Size,
    pub(super) cpu: f64,
    /// The most processes and threads, if the operator said so.
    pub(super) pids: Option<u32>,
    pub(super) disk: Option<Size>,
    pub(super) gpu: Option<Gpu>,
    /// What the operator chose, if anything.
    pub(super) egress: Option<Egress>,
    pub(super) runtime: Option<String>,
    pub(super) pod: Option<PodOptions>,
}

/// How many GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gpu {
    Some(u32),
    All,
}

impl Profiles {
    /// Those of the configuration file, and the images that callers may name, as globs: `team/*:1.*`.
    ///
    /// # Errors
    /// With the entry that is wrong.
    pub fn new(by_name: BTreeMap<String, Profile>, images: &[String]) -> Result<Self, String> {
        let matcher = |pattern: &String| {
            let glob = globset::GlobBuilder::new(pattern).literal_separator(true).build();
            glob.as_ref().map(Glob::compile_matcher).map_err(|error| format!("images: {error}"))
        };
        let profiles = Self { by_name, images: images.iter().map(matcher).collect::<Result<_, _>>()? };
        for (name, profile) in &profiles.by_name {
            profile.check().map_err(|error| format!("environments.{name}: {error}"))?;
        }
        for name in profiles.names() {
            let asked = LaunchRequest { environment: Some(name.to_owned()), ..LaunchRequest::default() };
            profiles.resolve(&asked).map_err(|error| format!("environments.{name}: {error}"))?;
        }
        Ok(profiles)
    }

    /// What a launch gets from a provider that runs images, unless it wishes what none of them keeps.
    pub(super) fn accept(&self, variant: &'static str, request: &LaunchRequest) -> Result<Resources, ProviderError> {
        if let Some(wish) = request.unkept(&KEPT) {
            return Err(ProviderError::Unsupported { variant, wish });
        }
        check_variables(&request.env)?;
        self.resolve(request)
    }

    /// What a launch gets, if it may.
    pub(super) fn resolve(&self, request: &LaunchRequest) -> Result<Resources, ProviderError> {
        let name = request.environment.as_deref().unwrap_or(DEFAULT);
        if !self.names().any(|known| known == name) {
            let known: Vec<&str> = self.names().collect();
            let known = known.join(", ");
            return Err(ProviderError::Invalid(format!("There is no environment '{name}' here; there are {known}.")));
        }
        let profile = self.by_name.get(name).cloned().unwrap_or_default().or(self.by_name.get(DEFAULT));
        let resources = Resources {
            image: self.image(name, request)?,
            memory: memory(profile.memory.unwrap_or(MEMORY), request.memory.as_deref())?,
            cpu: cpu(profile.cpu.unwrap_or(CPU), request.cpu)?,
            pids: profile.pids,
            disk: profile.disk,
            gpu: gpu(profile.gpu, request.gpu.as_deref())?,
            egress: profile.egress,
            runtime: profile.runtime,
            pod: profile.pod,
        };
        Ok(resources)
    }

    /// The names that callers may choose as `environment`.
    fn names(&self) -> impl Iterator<Item = &str> {
        let own = self.by_name.keys().map(String::as_str);
        let built_in = [DEFAULT].into_iter().chain(OURS);
        built_in.filter(|name| !self.by_name.contains_key(*name)).chain(own)
    }

    fn image(&self, name: &str, request: &LaunchRequest) -> Result<Image, ProviderError> {
        if let Some(image) = &request.image {
            if request.environment_version.is_some() {
                let message = "image and environment_version both name a version: leave one of them out.".to_owned();
                return Err(ProviderError::Invalid(message));
            }
            return self.allowed(image);
        }
        let profile = self.by_name.get(name);
        let ours = |name: &str| OURS.into_iter().find(|ours| *ours == name).map(Image::Ours);
        let of_default = || self.by_name.get(DEFAULT)?.image.clone();
        let named = profile.and_then(|profile| profile.image.clone());
        let image = match named {
            Some(image) => image,
            None if ours(name).is_some() => name.to_owned(),
            None => of_default().unwrap_or_else(|| OURS[0].to_owned()),
        };
        let Some(version) = &request.environment_version else {
            return Ok(ours(&image).unwrap_or(Image::Named(image)));
        };
        let versions = profile.map_or(&[][..], |profile| &profile.versions);
        if versions.contains(version) {
            return Ok(Image::Named(with_tag(&image, version)));
        }
        let known = if versions.is_empty() { "only its own".to_owned() } else { versions.join(", ") };
        let message = format!("Environment '{name}' has no version '{version}'; it has {known}.");
        Err(ProviderError::Invalid(message))
    }

    fn allowed(&self, image: &str) -> Result<Image, ProviderError> {
        // An engine goes by the digest alone where there is one, so a tag that was allowed says nothing then.
        let of_digest = |pattern: &&GlobMatcher| !image.contains('@') || pattern.glob().glob().contains('@');
        if is_reference(image) && self.images.iter().filter(of_digest).any(|pattern| pattern.is_match(image)) {
            return Ok(Image::Named(image.to_owned()));
        }
        let known: Vec<&str> = self.images.iter().map(|pattern| pattern.glob().glob()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!(
            "The image '{image}' may not be used here. The operator allows: {known}. Leave image out, or choose an environment."
        );
        Err(ProviderError::Forbidden(message))
    }
}

impl Profile {
    /// Refuses what means nothing, or no limit at all.
    fn check(&self) -> Result<(), String> {
        let too_little = [
            self.image.as_ref().filter(|image| !is_reference(image)).map(|image| format!("'{image}' is no image")),
            self.versions.iter().find(|version| !is_tag(version)).map(|version| format!("'{version}' is no version")),
            self.cpu
                .filter(|cpu| !(LEAST_CPU..=MOST_CPU).contains(cpu))
                .map(|cpu| format!("cpu {cpu} is not from {LEAST_CPU} to {MOST_CPU}")),
            self.pids
                .filter(|pids| !(LEAST_PIDS..=MOST_PIDS).contains(pids))
                .map(|pids| format!("pids {pids} is not from {LEAST_PIDS} to {MOST_PIDS}")),
            self.memory.filter(|memory| *memory > MOST).map(|memory| format!("memory {memory} is more than {MOST}")),
            self.disk.filter(|disk| *disk < LEAST_DISK).map(|disk| format!("disk {disk} is less than {LEAST_DISK}")),
        ];
        too_little.into_iter().flatten().next().map_or(Ok(()), Err)
    }

    /// What this one says, else what `default` says; but for the image and its versions, which belong together.
    fn or(self, default: Option<&Self>) -> Self {
        let Some(default) = default else { return self };
        Self {
            memory: self.memory.or(default.memory),
            cpu: self.cpu.or(default.cpu),
            pids: self.pids.or(default.pids),
            disk: self.disk.or(default.disk),
            gpu: self.gpu.or(default.gpu),
            egress: self.egress.or(default.egress),
            runtime: self.runtime.or_else(|| default.runtime.clone()),
            pod: self.pod.or_else(|| default.pod.clone()),
            ..self
        }
    }
}

fn memory(limit: Size, asked: Option<&str>) -> Result<Size, ProviderError> {
    let refused = |message: String| Err(ProviderError::Invalid(message));
    let wanted = match asked.map(str::parse::<Size>).transpose() {
        Ok(asked) => asked.unwrap_or(limit),
        Err(error) => return refused(format!("memory {error}.")),
    };
    if wanted > limit {
        return refused(format!("memory {wanted} is more than the {limit} of this environment: ask for at most that."));
    }
    if wanted < LEAST_MEMORY {
        return refused(format!("memory {wanted} is too little for Jupyter: ask for at least {LEAST_MEMORY}."));
    }
    Ok(wanted)
}

fn cpu(limit: f64, asked: Option<f64>) -> Result<f64, ProviderError> {
    let wanted = asked.unwrap_or(limit);
    if (LEAST_CPU..=limit).contains(&wanted) {
        return Ok(wanted);
    }
    let message = format!("cpu {wanted} is not between {LEAST_CPU} and the {limit} that this environment has.");
    Err(ProviderError::Invalid(message))
}

fn gpu(limit: Option<Gpu>, asked: Option<&str>) -> Result<Option<Gpu>, ProviderError> {
    let asked = asked.map(|asked| asked.parse().map_err(ProviderError::Invalid)).transpose()?;
    match (limit, asked) {
        (limit, None) => Ok(limit),
        (Some(limit), Some(asked)) if asked <= limit => Ok(Some(asked)),
        (None, Some(_)) => {
            let message = "This environment has no GPU: leave gpu out, or choose an environment with one.".to_owned();
            Err(ProviderError::Refused(message))
        }
        (Some(_), Some(_)) => {
            Err(ProviderError::Refused("This environment has fewer GPUs than gpu asks for.".to_owned()))
        }
    }
}

impl FromStr for Gpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            text => text
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .map(Self::Some)
                .ok_or_else(|| format!("gpu '{text}' is no number of GPUs: write 1, 2, ... or all.")),
        }
    }
}

/// A value that people write with or without quotation marks.
fn text_or_number<'de, D: Deserializer<'de>, T: FromStr<Err = String>>(from: D) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "this has to be a text or a whole number")]
    enum Written {
        Number(i64),
        // What templates make of a whole number.
        Float(f64),
        Text(String),
    }
    let text = match Written::deserialize(from)? {
        Written::Number(number) => number.to_string(),
        Written::Float(number) => number.to_string(),
        Written::Text(text) => text,
    };
    text.parse().map(Some).map_err(D::Error::custom)
}

/// Whether a text is an image's reference: names between '/', the last with a tag, a digest or both.
fn is_reference(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:@/".contains(&byte);
    let is_name = |part: &str| part.starts_with(|first: char| first.is_ascii_alphanumeric()) && !part.ends_with(':');
    text.bytes().all(plain) && text.split('/').all(is_name) && !text.contains("..")
}

/// Whether a text is a tag.
fn is_tag(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !text.is_empty() && text.len() <= 128 && text.bytes().all(plain)
}

/// A reference with another tag. What stands before a '/' may hold a port.
fn with_tag(image: &str, tag: &str) -> String {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    let (path, name) = image.rsplit_once('/').map_or(("", image), |(path, name)| (path, name));
    let name = name.split_once(':').map_or(name, |(name, _)| name);
    if path.is_empty() { format!("{name}:{tag}") } else { format!("{path}/{name}:{tag}") }
}

#[cfg(test)]
mod tests;
