//! Runs the common suite on each database.

mod sqlite {
    countersign::conformance!(crate::database::sqlite);
}

mod postgres {
    countersign::conformance!(crate::database::postgres);
}
