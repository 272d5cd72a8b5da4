//! The example agents with their data ("worlds"), which are built in with the feature `demo`.
//!
//! Without the feature, this module provides empty stand-ins with the same names, so that other modules compile
//! unchanged.

#[cfg(feature = "demo")]
pub use countersign_examples::{POLICY, Setup, WORLDS, World, named};

#[cfg(not(feature = "demo"))]
pub use absent::{POLICY, Setup, WORLDS, World, named};

#[cfg(not(feature = "demo"))]
mod absent {
    use std::path::Path;

    use countersign::executor::{Executor, NoExecutor, Outcome, Permit};
    use countersign::id::ToolName;
    use futures_util::future::BoxFuture;

    pub const POLICY: &str = "";
    pub const WORLDS: [&Setup; 0] = [];

    pub struct Setup {
        pub name: &'static str,
        pub definitions: &'static str,
        pub policy: &'static str,
        pub agent: &'static str,
        pub script: &'static str,
    }

    static NOTHING: Setup = Setup {
        name: "",
        definitions: "[]",
        policy: "",
        agent: "",
        script: "",
    };

    impl Setup {
        pub fn tools(&self) -> impl Iterator<Item = &'static str> + use<> {
            std::iter::empty()
        }
    }

    pub fn named(_: &str) -> Option<&'static Setup> {
        None
    }

    /// Stand-in for an example's data in programs built without the feature `demo`. Opening it always fails.
    #[derive(Clone)]
    pub struct World;

    impl World {
        pub fn open(_: &'static Setup, _: &Path) -> Result<World, String> {
            Err("this program was built without the demo worlds".to_owned())
        }

        pub fn setup(&self) -> &'static Setup {
            &NOTHING
        }
    }

    impl Executor for World {
        fn runs(&self, _: &ToolName) -> bool {
            false
        }

        fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome> {
            NoExecutor.run(permit)
        }
    }
}
