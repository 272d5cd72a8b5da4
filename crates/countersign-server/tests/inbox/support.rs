//! A service with an inbox, and browsers of people.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Builder;
use axum::http::{HeaderMap, Request, StatusCode};
use countersign::approval::SharedApproval;
use countersign::decision::{Decider, Decision, Surface, Verdict};
use countersign::executor::{Outcome, Permit, Tools};
use countersign::gate::{Gate, Submission, SubmittedCall};
use countersign::id::{Agent, Channel, Person, Run, Tenant, ToolName};
use countersign::policy::Policy;
use countersign::provenance::{Conversation, Message, VouchedConversation};
use countersign::seal::Sealer;
use countersign::store::memory::MemoryStore;
use countersign::time::{ManualClock, Time};
use countersign_server::access::{Account, Session};
use countersign_server::http::router;
use countersign_server::inbox;
use countersign_server::service::agents::Agents;
use countersign_server::web::{App, HostGuard};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use crate::settings;

pub const POLICY: &str = r#"
[agents]
most_pending = "unlimited"

[tools.create_contact]
effect = "write"
summary = "Create contact {{ name }}, {{ email }}"
yes = "Create"
no = "Do not create"
secret = ["api_key"]
undo = { tool = "delete_contact", arguments = { id = "{{ result.id }}" } }

[tools.create_contact.schema]
type = "object"
required = ["name", "email"]
additionalProperties = false

[tools.create_contact.schema.properties]
name = { type = "string", minLength = 1 }
email = { type = "string", pattern = "^[^@ ]+@[^@ ]+$" }
api_key = { type = "string" }

[tools.delete_contact]
effect = "destructive"
risk = "high"
summary = "Delete contact {{ id }}"

[tools.note]
effect = "write"
risk = "low"
summary = "Note {{ text }}"

[tools.pay]
effect = "external"
risk = "critical"
summary = "Pay {{ amount }}"

[tools.wire]
effect = "external"
quorum = 2
summary = "Wire {{ amount }}"

[tools.refund]
effect = "external"
approvers = ["finance"]
summary = "Refund {{ amount }}"

[tools.get_page]
effect = "read"

[tools.rename_page]
effect = "write"
summary = "Rename {{ before.title }} to {{ title }}"
before = { tool = "get_page", arguments = { id = "{{ args.id }}" } }
secret = ["token"]

[tools.delete_page]
effect = "destructive"
summary = "Delete {{ before.title }} and its {{ before.sections | length }} sections"
before = { tool = "get_page", arguments = { id = "{{ args.id }}" } }

[tools.hang]
effect = "external"
summary = "Hang"
timeout = "1s"

[tools.host_runs]
effect = "write"
"#;

/// 2026-01-01T00:00:00Z in microseconds.
const BEGIN: i64 = 1_767_225_600_000_000;

/// The service. `ana` is an approver, `finn` is in finance, `eve` is in no group.
pub struct World {
    pub app: App,
    pub clock: Arc<ManualClock>,
    pub ran: Arc<Mutex<Vec<String>>>,
    /// Answer of the tool `get_page`.
    pub page: Arc<Mutex<String>>,
    router: HostGuard,
}

/// A browser, with the value of its session cookie.
#[derive(Clone)]
pub struct Browser(String);

/// A response whose body was read.
#[derive(Debug)]
pub struct Page {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Page {
    /// Returns the `Location` header.
    pub fn location(&self) -> &str {
        self.headers
            .get("location")
            .map_or("", |place| place.to_str().unwrap())
    }

    #[track_caller]
    pub fn shows(&self, text: &str) -> &Page {
        assert!(self.text.contains(text), "no `{text}` in:\n{}", self.text);
        self
    }

    #[track_caller]
    pub fn hides(&self, text: &str) -> &Page {
        assert!(!self.text.contains(text), "`{text}` in:\n{}", self.text);
        self
    }

    /// Returns the text between the first `begin` and the next `end`.
    pub fn between(&self, begin: &str, end: &str) -> &str {
        let from = self.text.find(begin).unwrap_or_else(|| panic!("no {begin}")) + begin.len();
        let rest = &self.text[from..];
        &rest[..rest.find(end).unwrap_or_else(|| panic!("no {end}"))]
    }
}

impl Browser {
    /// Returns the browser with this session.
    pub fn with(session: &str) -> Browser {
        Browser(session.to_owned())
    }

    fn request(&self, path: &str) -> Builder {
        Request::builder()
            .uri(path)
            .header("host", "inbox.test")
            .header("cookie", format!("__Host-countersign={}", self.0))
    }
}

/// Adds the headers that a browser sends with a form of the service's own page.
fn as_form(request: Builder) -> Builder {
    request
        .method("POST")
        .header("origin", "http://inbox.test")
        .header("sec-fetch-site", "same-origin")
        .header("content-type", "application/x-www-form-urlencoded")
}

impl World {
    pub async fn new() -> World {
        World::with_policy(POLICY).await
    }

    pub async fn with_policy(policy: &str) -> World {
        let clock = Arc::new(ManualClock::at(Time::from_micros(BEGIN)));
        let store = Arc::new(MemoryStore::with_clock(clock.clone()));
        let ran = Arc::<Mutex<Vec<String>>>::default();
        let page = Arc::new(Mutex::new(
            r#"{"id":"p1","title":"About <us>","sections":["a","b"]}"#.to_owned(),
        ));
        let shared = page.clone();
        let mut tools = Tools::default().with(ToolName::new("get_page").unwrap(), move |_| {
            let page = shared.lock().unwrap().clone();
            async move { Outcome::succeeded(page) }
        });
        for name in [
            "create_contact",
            "delete_contact",
            "note",
            "pay",
            "refund",
            "hang",
            "rename_page",
            "delete_page",
        ] {
            let ran = ran.clone();
            tools = tools.with(ToolName::new(name).unwrap(), move |permit: Permit| {
                let arguments = String::from_utf8_lossy(permit.arguments().as_bytes()).into_owned();
                ran.lock().unwrap().push(format!("{} {arguments}", permit.tool()));
                async move {
                    if name == "hang" {
                        std::future::pending::<()>().await;
                    }
                    Outcome::succeeded(r#"{"id":"c-1"}"#)
                }
            });
        }
        let gate = Gate::new(store, Arc::new(Policy::parse(policy).unwrap()))
            .with_executor(Arc::new(tools))
            .with_sealer(Sealer::from_hex(&"ab".repeat(32)).unwrap());
        let app = App::new(
            gate,
            settings::service(),
            settings::web("inbox.test"),
            Agents::default(),
        );
        let router = router(app.clone(), inbox::pages()).with_error_page(inbox::error_page);
        World {
            app,
            clock,
            ran,
            page,
            router,
        }
    }

    pub async fn sign_in(&self, name: &str, groups: &[&str]) -> Browser {
        let person = Person::new(name).unwrap();
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let account = Account::new(person, groups, Time::from_micros(BEGIN));
        let tenant = Tenant::single();
        let account = account.add(self.app.store(), &tenant).await.unwrap();
        Browser(Session::begin(self.app.store(), &tenant, &account).await.unwrap())
    }

    pub async fn ana(&self) -> Browser {
        self.sign_in("ana", &["approvers"]).await
    }

    /// Returns a browser without a session.
    pub fn nobody(&self) -> Browser {
        Browser(String::new())
    }

    pub async fn get(&self, browser: &Browser, path: &str) -> Page {
        self.send(browser, path, None, &[]).await
    }

    pub async fn post(&self, browser: &Browser, path: &str, fields: &[(&str, &str)]) -> Page {
        self.send(browser, path, Some(fields), &[]).await
    }

    /// Sends a GET request and returns the response with its body unread.
    pub async fn open(&self, browser: &Browser, path: &str) -> axum::response::Response {
        let request = browser.request(path);
        let request = request.body(Body::empty()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub async fn send(
        &self,
        browser: &Browser,
        path: &str,
        form: Option<&[(&str, &str)]>,
        headers: &[(&str, &str)],
    ) -> Page {
        let mut request = browser.request(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = match form {
            None => String::new(),
            Some(fields) => {
                request = as_form(request);
                let pairs: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{name}={}", encoded(value)))
                    .collect();
                pairs.join("&")
            }
        };
        self.ask(request.body(Body::from(body)).unwrap()).await
    }

    async fn ask(&self, request: Request<Body>) -> Page {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Page {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    /// Sends a form whose body is this text.
    pub async fn post_text(&self, browser: &Browser, path: &str, body: &str) -> Page {
        let request = as_form(browser.request(path));
        self.ask(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    /// Sends the form on the approval's page, with additional fields.
    pub async fn decide(&self, browser: &Browser, approval: &SharedApproval, more: &[(&str, &str)]) -> Page {
        let digest = approval.digest.to_string();
        let mut fields = vec![("digest", digest.as_str()), ("from", "detail")];
        fields.extend(more);
        let path = format!("/approvals/{}/decision", approval.id);
        self.post(browser, &path, &fields).await
    }

    /// Sends edited arguments, which decides nothing, and then the form of the card that shows what would run. Returns
    /// that card, and the answer to its form.
    pub async fn edit(
        &self,
        browser: &Browser,
        approval: &SharedApproval,
        fields: &[(&str, &str)],
    ) -> (Page, Page) {
        let mut first = vec![("verdict", "edit")];
        first.extend(fields);
        let card = self.decide(browser, approval, &first).await;
        assert_eq!(card.status, 200, "{}", card.text);
        assert_eq!(
            self.now(approval).await.version,
            approval.version,
            "nothing is decided"
        );
        let preview = card.between("name=preview value=", ">").to_owned();
        let mut second = vec![("verdict", "confirm"), ("preview", preview.as_str())];
        second.extend(fields);
        let answer = self.decide(browser, approval, &second).await;
        (card, answer)
    }

    /// Decides as `bo` on the command line.
    pub async fn decide_elsewhere(&self, approval: &SharedApproval, verdict: Verdict) {
        let decision = {
            let mut decision = Decision::on(
                approval.tenant.clone(),
                countersign::card::WholeCard::shown(approval),
                Decider::new(
                    Person::new("bo").unwrap(),
                    vec!["approvers".to_owned()],
                    Surface::CommandLine,
                ),
                verdict,
            );
            decision.comment = Some("not today".to_owned());
            decision.claimed_by = Some("the boss".to_owned());
            decision
        };
        let answer = self.app.gate.decide(decision).await.unwrap();
        assert_eq!(answer.refusal, None);
    }

    pub async fn hold(&self, calls: &[(&str, &str)]) -> SharedApproval {
        self.hold_as(calls, |_| ()).await
    }

    pub async fn hold_as(
        &self,
        calls: &[(&str, &str)],
        change: impl FnOnce(&mut Submission),
    ) -> SharedApproval {
        let call = |(tool, arguments): &(&str, &str)| SubmittedCall::new(*tool, arguments.as_bytes());
        let mut submission = Submission {
            tenant: Tenant::single(),
            agent: Agent::new("crm").unwrap(),
            requester: Person::new("crm-token").unwrap(),
            on_behalf_of: None,
            channel: None::<Channel>,
            run: None::<Run>,
            session: None,
            claim: None,
            key: None,
            conversation: None,
            options: Default::default(),
            calls: calls.iter().map(call).collect(),
        };
        change(&mut submission);
        self.app.gate.submit(submission).await.unwrap().approval.unwrap()
    }

    /// Returns the approval as it is now.
    pub async fn now(&self, approval: &SharedApproval) -> SharedApproval {
        let found = self.app.store().approval(&approval.tenant, approval.id).await;
        found.unwrap().unwrap()
    }

    /// Waits until all calls have ended and returns the approval.
    pub async fn finished(&self, approval: &SharedApproval) -> SharedApproval {
        for _ in 0..1_000 {
            let now = self.now(approval).await;
            if now.is_finished() {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it never finished");
    }

    pub fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }
}

/// Builds a conversation from speakers and texts: `user` is the person, `web` is outside text, other names are tools.
pub fn conversation(said: &[(&str, &str)]) -> VouchedConversation {
    let message = |(who, text): &(&str, &str)| match *who {
        "user" => Message::Person {
            text: (*text).to_owned(),
            at: None,
        },
        "web" => Message::Outside {
            name: "web".to_owned(),
            text: (*text).to_owned(),
        },
        tool => Message::Tool {
            name: tool.to_owned(),
            text: (*text).to_owned(),
        },
    };
    let messages = said.iter().map(message).collect();
    VouchedConversation::recorded_by_host(Conversation { messages })
}

pub const MARIA: &str = r#"{"name":"Maria Garcia","email":"maria@example.com"}"#;

fn encoded(text: &str) -> String {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| match safe(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}
