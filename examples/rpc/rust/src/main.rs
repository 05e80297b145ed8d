//! A service and its client: `hello serve`, and `hello call NAME`.

use std::error::Error;
use unrack_pool::socket::default_socket;
use unrack_rpc::{Client, Server, client, server};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => serve(),
        ["call", name] => call(name),
        _ => Err("usage: hello serve | call NAME".into()),
    }
}

/// Greets whoever calls, until this process is ended or the pool's manager is gone.
fn serve() -> Result<(), Box<dyn Error>> {
    let hello = Server::new("hello", server::Options::default()).method("greet", |call| {
        // The client could change the request while it is read: a copy is what counts.
        let name = call.request().to_vec();
        let text = format!("Hello, {}, from Rust", String::from_utf8_lossy(&name));
        call.answer(text.len())?.copy_from(text.as_bytes());
        Ok(())
    });
    let serving = hello.serve(default_socket())?;
    println!("serving");
    serving.wait();
    Ok(())
}

/// Prints the greeting of the service.
fn call(name: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(default_socket(), "hello", client::Options::default())?;
    let mut request = client.request_with_room(name.len(), 256)?;
    request.body().copy_from(name.as_bytes());
    let answer = request.call("greet")?;
    println!("{}", String::from_utf8_lossy(&answer.body().to_vec()));
    Ok(())
}
