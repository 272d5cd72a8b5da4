use super::language::Tables;

#[test]
fn tables_have_no_mistakes() {
    let tables = Tables::build();
    assert!(tables.is_ok(), "{:?}", tables.err());
}
