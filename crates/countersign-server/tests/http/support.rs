//! A service for tests, and requests to it.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use countersign::executor::{Outcome, Tools};
use countersign::gate::Gate;
use countersign::id::{Agent, Person, Tenant, ToolName};
use countersign::policy::Policy;
use countersign::seal::Sealer;
use countersign::store::memory::MemoryStore;
use countersign::time::{ManualClock, Time};
use countersign_agent::file::{AgentFile, Provider};
use countersign_examples::{World, crm};
use countersign_server::access::{AccessError, Account, NewToken, Scope};
use countersign_server::http::{openapi, router};
use countersign_server::inbox;
use countersign_server::leave::WithLeave;
use countersign_server::service::agents::{self, Agents, Loaded, TalkSecret};
use countersign_server::web::{App, HostGuard};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

use crate::settings;

pub const POLICY: &str = r#"
[tools.search]
effect = "read"

[tools.lookup]
effect = "read"

[tools.create_contact]
effect = "write"
summary = "Create contact {{ name }}"
undo = { tool = "delete_contact", arguments = { id = "{{ result.id }}" } }
secret = ["api_key"]

[tools.delete_contact]
effect = "destructive"

[tools.refund]
effect = "external"
risk = "high"
deny = "args.amount > 1000.0"
approvers = ["finance"]

[tools.echo]
effect = "write"

[tools.get_page]
effect = "read"

[tools.rename_page]
effect = "write"
summary = "Rename {{ before.title }} to {{ title }}"
before = { tool = "get_page", arguments = { id = "{{ args.id }}" } }
secret = ["token"]
"#;

/// 2026-01-01T00:00:00Z in microseconds.
pub const NEW_YEAR: i64 = 1_767_225_600_000_000;

/// A service with two people: `ana` (approvers) and `finn` (finance).
pub struct Service {
    pub app: App,
    pub clock: Arc<ManualClock>,
    /// Answer of the tool `get_page`.
    pub page: Arc<Mutex<String>>,
    /// Arguments of each run of `echo`, in order.
    pub ran: Arc<Mutex<Vec<String>>>,
    router: HostGuard,
}

/// Error codes that the OpenAPI document lists.
static ERROR_CODES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let document = serde_json::to_value(openapi()).unwrap();
    serde_json::from_value(document["components"]["schemas"]["ErrorCode"]["enum"].clone()).unwrap()
});

/// A response whose body was read.
#[derive(Debug)]
pub struct Answered {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answered {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    /// Returns the HTTP status and the error code of the body.
    pub fn error(&self) -> (u16, String) {
        let code = self.json()["error"]["code"].as_str().unwrap_or("none").to_owned();
        assert!(ERROR_CODES.contains(&code), "`{code}` is not in the document");
        (self.status.as_u16(), code)
    }

    #[track_caller]
    pub fn good(self) -> Value {
        assert!(self.status.is_success(), "{} {}", self.status, self.text);
        self.json()
    }
}

impl Service {
    pub async fn new() -> Service {
        Service::with_policy(POLICY).await
    }

    /// Creates a service over this store whose agent `crm` acts in `world`.
    pub async fn talking(clock: &Arc<ManualClock>, store: &Arc<MemoryStore>, world: &World) -> Service {
        let policy = Policy::parse(crm::SETUP.policy).unwrap();
        let gate = Gate::new(store.clone(), Arc::new(policy)).with_executor(Arc::new(world.clone()));
        Service::over(gate, clock.clone(), Arc::default(), Arc::default()).await
    }

    pub async fn with_policy(policy: &str) -> Service {
        let echo = |permit: countersign::executor::Permit| async move {
            Outcome::succeeded(permit.arguments().as_bytes())
        };
        let page = Arc::new(Mutex::new(r#"{"title":"Old","sections":[1,2]}"#.to_owned()));
        let shared = page.clone();
        let read = move |_: countersign::executor::Permit| {
            let found = shared.lock().unwrap().clone();
            async { Outcome::succeeded(found) }
        };
        let ran: Arc<Mutex<Vec<String>>> = Arc::default();
        let record = ran.clone();
        let recorded = move |permit: countersign::executor::Permit| {
            let arguments = String::from_utf8_lossy(permit.arguments().as_bytes()).into_owned();
            record.lock().unwrap().push(arguments.clone());
            async { Outcome::succeeded(arguments) }
        };
        let tools = Tools::default()
            .with(ToolName::new("echo").unwrap(), recorded)
            .with(ToolName::new("lookup").unwrap(), echo)
            .with(ToolName::new("get_page").unwrap(), read);
        Service {
            ran,
            ..Service::with_tools(policy, tools, page).await
        }
    }

    pub async fn with_tools(policy: &str, tools: Tools, page: Arc<Mutex<String>>) -> Service {
        let (clock, store) = empty_store();
        let gate = Gate::new(store, Arc::new(Policy::parse(policy).unwrap()))
            .with_executor(Arc::new(WithLeave(Arc::new(tools))))
            .with_sealer(Sealer::from_hex(&"ab".repeat(32)).unwrap());
        Service::over(gate, clock, page, Arc::default()).await
    }

    /// Creates a service without tools over this store, as after a restart.
    pub async fn on(clock: &Arc<ManualClock>, store: &Arc<MemoryStore>) -> Service {
        let gate = Gate::new(store.clone(), Arc::new(Policy::parse(POLICY).unwrap()));
        Service::over(gate, clock.clone(), Arc::default(), Arc::default()).await
    }

    /// Creates a service with one served agent and these tools.
    pub async fn with_agent(policy: &str, tools: Tools, agent: Loaded) -> Service {
        let (clock, store) = empty_store();
        let policy = Arc::new(Policy::parse(policy).unwrap());
        let executor = WithLeave(Arc::new(tools));
        let gate = Gate::new(store, policy).with_executor(Arc::new(executor));
        Service::serving(gate, clock, Arc::default(), Arc::default(), agent).await
    }

    /// Creates a service whose tools only record their names.
    pub async fn recording(policy: &str, names: &[&'static str]) -> (Service, Arc<Mutex<Vec<String>>>) {
        let (clock, store) = empty_store();
        let ran = Arc::<Mutex<Vec<String>>>::default();
        let mut tools = Tools::default();
        for name in names.iter().copied() {
            let ran = ran.clone();
            tools = tools.with(ToolName::new(name).unwrap(), move |_| {
                ran.lock().unwrap().push(name.to_owned());
                async { Outcome::succeeded("{}") }
            });
        }
        let gate = Gate::new(store, Arc::new(Policy::parse(policy).unwrap())).with_executor(Arc::new(tools));
        let service = Service::over(gate, clock, Arc::default(), ran.clone()).await;
        (service, ran)
    }

    /// Creates a service whose tools only record their arguments.
    pub async fn noting(policy: &str, names: &[&'static str]) -> (Service, Arc<Mutex<Vec<String>>>) {
        let (clock, store) = empty_store();
        let journal: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut tools = Tools::default();
        for name in names {
            let journal = journal.clone();
            tools = tools.with(
                ToolName::new(*name).unwrap(),
                move |permit: countersign::executor::Permit| {
                    let bytes = String::from_utf8_lossy(permit.arguments().as_bytes()).into_owned();
                    journal.lock().unwrap().push(bytes);
                    async { Outcome::succeeded(r#"{"id":"*","title":"Old"}"#) }
                },
            );
        }
        let policy = Arc::new(Policy::parse(policy).unwrap());
        let gate = Gate::new(store, policy).with_executor(Arc::new(tools));
        (
            Service::over(gate, clock, Arc::default(), Arc::default()).await,
            journal,
        )
    }

    async fn over(
        gate: Gate,
        clock: Arc<ManualClock>,
        page: Arc<Mutex<String>>,
        ran: Arc<Mutex<Vec<String>>>,
    ) -> Service {
        Service::serving(gate, clock, page, ran, crm_agent()).await
    }

    async fn serving(
        gate: Gate,
        clock: Arc<ManualClock>,
        page: Arc<Mutex<String>>,
        ran: Arc<Mutex<Vec<String>>>,
        agent: Loaded,
    ) -> Service {
        let secret = TalkSecret::load(gate.store(), &tenant()).await.unwrap();
        let agents = Agents::new(&gate, tenant(), secret, vec![agent], true).unwrap();
        let app = App::new(gate, settings::service(), settings::web("service.test"), agents);
        let follows = agents::follow(app.service().clone());
        tokio::spawn(follows);
        let router = router(app.clone(), inbox::pages()).with_error_page(inbox::error_page);
        let service = Service {
            app,
            clock,
            page,
            ran,
            router,
        };
        service.person("main", "ana", &["approvers"]).await;
        service.person("main", "finn", &["finance"]).await;
        service
    }

    pub async fn person(&self, tenant: &str, name: &str, groups: &[&str]) {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let account = Account::new(Person::new(name).unwrap(), groups, Time::from_micros(NEW_YEAR));
        let added = account.add(self.app.store(), &Tenant::new(tenant).unwrap()).await;
        assert!(matches!(added, Ok(_) | Err(AccessError::Exists(_))), "{added:?}");
    }

    /// Creates a token of an agent.
    pub async fn agent(&self, name: &str) -> String {
        self.token_in("main", &[Scope::Propose, Scope::Wait], Some(name), None)
            .await
    }

    /// Creates a token that lets a person read and decide.
    pub async fn decider(&self, name: &str) -> String {
        self.token_in("main", &[Scope::Read, Scope::Decide], None, Some(name))
            .await
    }

    /// Creates a token with one scope, and the agent or person that this scope requires.
    pub async fn with_scope(&self, tenant: &str, scope: Scope) -> String {
        match scope {
            Scope::Propose | Scope::Wait | Scope::Agent => {
                self.token_in(tenant, &[scope], Some("crm"), None).await
            }
            Scope::Decide | Scope::Chat => self.token_in(tenant, &[scope], None, Some("ana")).await,
            _ => self.token_in(tenant, &[scope], None, None).await,
        }
    }

    pub async fn token_in(
        &self,
        tenant: &str,
        scopes: &[Scope],
        agent: Option<&str>,
        person: Option<&str>,
    ) -> String {
        let new = NewToken {
            tenant: Tenant::new(tenant).unwrap(),
            name: Some(Person::new(agent.or(person).unwrap_or("some program")).unwrap()),
            scopes: scopes.iter().copied().collect(),
            agent: agent.map(|agent| Agent::new(agent).unwrap()),
            person: person.map(|person| Person::new(person).unwrap()),
            lasts: Duration::from_secs(24 * 3600),
        };
        new.mint(self.app.store()).await.unwrap().text
    }

    pub async fn ask(&self, request: Request<Body>) -> Answered {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answered {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    /// Sends a request and returns the response with its body unread.
    pub async fn open(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub async fn get(&self, token: &str, path: &str) -> Answered {
        self.ask(request(Method::GET, path, Some(token), "")).await
    }

    pub async fn post(&self, token: &str, path: &str, body: &str) -> Answered {
        self.ask(request(Method::POST, path, Some(token), body)).await
    }

    /// Proposes one call and returns the approval.
    pub async fn propose(&self, token: &str, tool: &str, arguments: &str) -> Value {
        let body = format!(r#"{{"calls":[{{"tool":"{tool}","arguments":{arguments}}}],"channel":"{tool}"}}"#);
        self.post(token, "/v1/calls", &body).await.good()["approval"].clone()
    }
}

/// Returns an empty store and its clock, which tests move.
pub fn empty_store() -> (Arc<ManualClock>, Arc<MemoryStore>) {
    let clock = Arc::new(ManualClock::at(Time::from_micros(NEW_YEAR)));
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    (clock, store)
}

/// Returns the built-in CRM agent, with its script.
fn crm_agent() -> Loaded {
    let setup = &crm::SETUP;
    let file = AgentFile::parse(setup.agent, setup.definitions, Some(setup.script)).unwrap();
    Loaded {
        plan: file.config(&Provider::Script).unwrap(),
        is_scripted: true,
        openings: Vec::new(),
    }
}

pub fn tenant() -> Tenant {
    Tenant::single()
}

pub fn request(method: Method, path: &str, token: Option<&str>, body: &str) -> Request<Body> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "service.test");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    request.body(Body::from(body.to_owned())).unwrap()
}

pub fn id(approval: &Value) -> String {
    approval["id"].as_str().unwrap().to_owned()
}
