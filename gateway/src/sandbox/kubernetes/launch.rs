//! The launch of a pod: its record, its secret, itself; then the wait until it is ready, or it is known why it won't be.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::cluster::{Connected, said, status};
use super::objects::{self, Making, name};
use super::words::{self, State};
use super::{KubernetesProvider, POLL};
use crate::points;
use crate::sandbox::{Endpoint, Plan, Progress, ProviderError, SandboxProvider};

/// How long a pod may stay unscheduled before that is an answer.
const SCHEDULING: Duration = Duration::from_secs(25);
/// How long an image may fail to be had before that is an answer: the first failure may be a moment's.
const STUCK: Duration = Duration::from_secs(5);

impl KubernetesProvider {
    pub(super) async fn start(&self, plan: &Plan, news: &Progress) -> Result<Endpoint, ProviderError> {
        let resources = self.profiles.resolve(&plan.request)?;
        let connected = self.cluster.connected().await?;
        let image = self.reference(&resources.image);
        news.say("creating the pod");
        let record: ConfigMap = create(&connected.api(), &objects::record(&self.gateway, plan)).await?;
        points::reached("kubernetes.recorded").await;
        let claim = self.claims.make(plan, resources.disk).await?;
        let making =
            Making { plan, resources: &resources, image: &image, gateway: &self.gateway, claim: claim.as_deref() };
        create::<Secret>(&connected.api(), &objects::secret(&making, &record)).await?;
        create::<Pod>(&connected.api(), &objects::pod(&making, &record)).await?;
        points::reached("kubernetes.created").await;
        self.wait(connected, plan, news).await?;
        let pod = connected.pod(&name(plan.id.as_str())).ok_or_else(deleted)?;
        let address = self.address(&plan.id, &pod).await?;
        Ok(Endpoint { url: format!("http://{address}{}", plan.base_url), backend: None, image: Some(image) })
    }

    /// Until its Jupyter listens.
    async fn wait(&self, connected: &Connected, plan: &Plan, news: &Progress) -> Result<(), ProviderError> {
        let (name, begun) = (name(plan.id.as_str()), Instant::now());
        let (mut stuck, mut told, mut seen) = (None::<Instant>, String::new(), false);
        loop {
            let state = match connected.pod(&name) {
                Some(pod) => words::state(&pod),
                None if seen => return Err(deleted()),
                None => State::Starting("the cluster has not shown it yet".to_owned()),
            };
            seen |= connected.pod(&name).is_some();
            match state {
                State::Ready => return Ok(()),
                State::Ended(reason) => {
                    let said = self.last_words(&plan.id).await;
                    let said = if said.is_empty() { said } else { format!(" and last said: {said}") };
                    return Err(ProviderError::Failed(format!("{reason}{said}")));
                }
                State::Stuck(reason) if stuck.get_or_insert_with(Instant::now).elapsed() > STUCK => {
                    return Err(ProviderError::Failed(reason));
                }
                State::Starting(missing) if missing.contains("can't be scheduled") && begun.elapsed() > SCHEDULING => {
                    return Err(ProviderError::Failed(missing));
                }
                State::Stuck(missing) | State::Starting(missing) => {
                    if told != missing {
                        news.say(missing.clone());
                        told = missing;
                    }
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

fn deleted() -> ProviderError {
    ProviderError::Failed("its pod was deleted by somebody".to_owned())
}

/// Creates an object. One that is there already under its name is this launch's own if it is the same in what says whose it
/// is (a request whose answer was lost), or it is another's, and stays.
async fn create<K>(api: &Api<K>, object: &K) -> Result<K, ProviderError>
where
    K: kube::Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let failed = |error: kube::Error| ProviderError::Failed(said(&error));
    let refused = match api.create(&PostParams::default(), object).await {
        Ok(created) => return Ok(created),
        Err(error) if status(&error) == Some(409) => error,
        Err(error) => return Err(failed(error)),
    };
    let meta = object.meta();
    let there = api.get_opt(meta.name.as_deref().unwrap_or_default()).await;
    match there {
        Ok(Some(there)) if objects::is_of(there.meta(), meta) => Ok(there),
        Ok(Some(_)) => {
            Err(ProviderError::Failed(format!("{}; it is another's, so it is left as it is", said(&refused))))
        }
        // Secrets can't be read, nor what is gone again.
        _ => Err(failed(refused)),
    }
}
