//! The kernels that a server can start.

use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;

use super::{JupyterError, Server};
use crate::nbformat::Kernelspec;

/// The installed kernelspecs, by name.
#[derive(Clone, Debug)]
pub struct Kernelspecs {
    /// The name of the one that is started when none is asked for.
    pub default: String,
    /// All of them, by name.
    pub specs: BTreeMap<String, Kernelspec>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    default: String,
    #[serde(default)]
    kernelspecs: BTreeMap<String, Installed>,
}

#[derive(Deserialize)]
struct Installed {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    display_name: String,
    #[serde(default)]
    language: String,
}

impl Server {
    /// The kernels that it can start.
    pub async fn kernelspecs(&self) -> Result<Kernelspecs, JupyterError> {
        let answer: Answer = self.rest.json(self.rest.call(Method::GET, ["kernelspecs"])).await?;
        let specs = answer.kernelspecs.into_iter().map(|(name, installed)| {
            let Spec { display_name, language } = installed.spec;
            (name.clone(), Kernelspec { name, display_name, language })
        });
        Ok(Kernelspecs { default: answer.default, specs: specs.collect() })
    }
}
