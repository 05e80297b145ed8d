//! The header says what the library has.

use cbindgen::{Builder, Config, DocumentationStyle, EnumConfig, ExportConfig, Language, RenameRule, Style};
use std::path::Path;

const INTRODUCTION: &str = "\
/* Calls by reference over shared memory. Generated from crates/pool/rpc-c/src: do not edit.
 *
 * Link with -lunrack_rpc. Texts are UTF-8 and end with a zero byte.
 *
 * Ownership: an object that a function stores at a pointer to a pointer belongs to the caller, until the caller passes it to the function
 * `..._free` of its type. Handles may be freed in any order.
 *
 * Errors: a function that can fail returns a status. If the status is not UNRACK_STATUS_OK and `error` is not null, the function stores an
 * error at `error`, which belongs to the caller; it stores nothing else. The status is UNRACK_STATUS_INVALID if a required pointer is null.
 *
 * Messages: the peer has mapped the memory of a message too, and a peer that violates the protocol may write to it while it is read.
 * Therefore copy data that must be checked with unrack_copy first, and then check and use the copy.
 *
 * Pools: a null socket means the user's pool, $XDG_RUNTIME_DIR/unrack/pool.sock; without that variable, unrack-USER/pool.sock in the folder
 * for temporary files, where USER is the user's number.
 *
 * Threads: several threads may use a client, an endpoint, a listener or a link at the same time. Any other handle may be used by one thread
 * at a time, which may be any thread.
 *
 * Processes: a handle belongs to the process that made it. A forked child must connect for itself: functions that can fail return
 * UNRACK_STATUS_INVALID for its parent's handles, and freeing these handles does not affect the parent. The child has the messages of its
 * parent mapped too, and must not write to them; the socket of a link is the parent's.
 */";

const NAMES: [(&str, &str); 20] = [
    ("CallStatus", "unrack_status"),
    ("CallFailure", "unrack_error"),
    ("Client", "unrack_client"),
    ("ClientOptions", "unrack_client_options"),
    ("Call", "unrack_call"),
    ("Server", "unrack_server"),
    ("ServerOptions", "unrack_server_options"),
    ("HandledCall", "unrack_incoming"),
    ("Handler", "unrack_handler"),
    ("MappedMessages", "unrack_kept"),
    ("Stream", "unrack_stream"),
    ("StreamOpener", "unrack_opener"),
    ("Source", "unrack_source"),
    ("Closer", "unrack_closer"),
    ("Endpoint", "unrack_endpoint"),
    ("Listener", "unrack_listener"),
    ("Link", "unrack_link"),
    ("Buffer", "unrack_buffer"),
    ("LoanHandle", "unrack_loan"),
    ("NO_TIMEOUT", "UNRACK_NO_TIMEOUT"),
];

fn generate(crate_folder: &Path) -> String {
    let constants = ["WAITING_ADAPTIVE", "WAITING_SPIN", "WAITING_SLEEP", "REFUSALS", "MORE"];
    let renamed = constants.map(|name| (name.to_string(), format!("UNRACK_{name}")));
    let names = NAMES.map(|(rust, c)| (rust.to_string(), c.to_string()));
    let config = Config {
        language: Language::C,
        header: Some(INTRODUCTION.into()),
        include_guard: Some("UNRACK_RPC_H".into()),
        no_includes: true,
        sys_includes: vec!["stdbool.h".into(), "stddef.h".into(), "stdint.h".into()],
        cpp_compat: true,
        style: Style::Type,
        documentation_style: DocumentationStyle::C99,
        line_length: 110,
        export: ExportConfig {
            rename: names.into_iter().chain(renamed).collect(),
            ..ExportConfig::default()
        },
        enumeration: EnumConfig {
            rename_variants: RenameRule::ScreamingSnakeCase,
            prefix_with_name: true,
            ..EnumConfig::default()
        },
        usize_is_size_t: true,
        ..Config::default()
    };
    let sources = ["border.rs", "error.rs", "client.rs", "server.rs", "stream.rs", "message.rs", "lend.rs"];
    let builder = sources.iter().fold(Builder::new().with_config(config), |builder, source| {
        builder.with_src(crate_folder.join("src").join(source))
    });
    let mut header = Vec::new();
    builder.generate().expect("the sources are understood").write(&mut header);
    String::from_utf8(header).expect("a text")
}

#[test]
fn the_header_is_made_from_the_sources() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = crate_folder.join("include/unrack_rpc.h");
    let generated = generate(crate_folder);
    if std::env::var_os("UNRACK_WRITE_HEADER").is_some() {
        std::fs::write(&path, &generated).expect("the header is written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == generated,
        "include/unrack_rpc.h is not what the sources say: UNRACK_WRITE_HEADER=1 cargo test -p unrack-rpc-c --test header"
    );
}
