//! State of the HTTP surfaces: the service, and parts that only HTTP needs.

use std::ops::Deref;
use std::sync::Arc;

use countersign::gate::Gate;

use super::{AllowedHosts, AllowedOrigins, CallerCache, ResponseCache, TrustedProxies};
use crate::service::agents::Agents;
use crate::service::{self, Service};

/// State of all HTTP handlers. Clones share the same parts.
#[derive(Clone)]
pub struct App {
    service: Service,
    web: Arc<Web>,
}

/// State that only HTTP needs.
struct Web {
    settings: Settings,
    caller_cache: CallerCache,
    response_cache: ResponseCache,
}

/// The operator's configuration of the HTTP surfaces.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Accepted values of the `Host` header.
    pub hosts: AllowedHosts,
    /// True if clients connect over TLS, which the service or a proxy in front terminates. Responses then carry HSTS.
    pub is_secure: bool,
    /// Proxies whose `X-Forwarded-For` header determines the client's address.
    pub trusted_proxies: TrustedProxies,
    /// Origins of other web sites whose pages may call the API.
    pub origins: AllowedOrigins,
}

impl App {
    /// Creates the state of a service that hosts `agents`.
    pub fn new(gate: Gate, service: service::Settings, web: Settings, agents: Agents) -> App {
        App {
            service: Service::new(gate, service, agents),
            web: Arc::new(Web {
                settings: web,
                caller_cache: CallerCache::default(),
                response_cache: ResponseCache::default(),
            }),
        }
    }

    /// Returns the service behind the handlers.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Returns the operator's configuration of the HTTP surfaces.
    pub fn web(&self) -> &Settings {
        &self.web.settings
    }

    /// Returns the cache of authenticated callers.
    pub fn caller_cache(&self) -> &CallerCache {
        &self.web.caller_cache
    }

    /// Returns the cache of approvals serialized as JSON.
    pub fn response_cache(&self) -> &ResponseCache {
        &self.web.response_cache
    }
}

impl Deref for App {
    type Target = Service;
    fn deref(&self) -> &Service {
        &self.service
    }
}
