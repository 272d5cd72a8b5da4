//! Settings of a service for tests.

use std::time::Duration;

use countersign::id::Tenant;
use countersign_server::service::{self, LimitSettings};
use countersign_server::web::{self, AllowedHosts, AllowedOrigins, TrustedProxies};

pub fn service() -> service::Settings {
    service::Settings {
        tenant: Tenant::single(),
        longest_wait: Duration::from_secs(60),
        decisions_per_second: service::DECISIONS_PER_SECOND,
        limits: LimitSettings::default(),
        page: Some("https://gate.example".to_owned()),
    }
}

/// Settings of a service that is reached under one host name, without TLS.
pub fn web(host: &str) -> web::Settings {
    web::Settings {
        hosts: AllowedHosts::new([host.to_owned()]),
        is_secure: false,
        trusted_proxies: TrustedProxies::default(),
        origins: AllowedOrigins::parse(&["https://app.example".to_owned()]).unwrap(),
    }
}
