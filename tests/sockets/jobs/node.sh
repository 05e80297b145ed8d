# Node: HTTP over persistent connections, and a stream of 10 MB in each direction, in one process.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh" "$1"
cat > job.js << 'EOF'
const http = require('http'), net = require('net'), crypto = require('crypto');
const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
const server = http.createServer((request, response) => {
  const hash = crypto.createHash('md5');
  request.on('data', (piece) => hash.update(piece));
  request.on('end', () => response.end(hash.digest('hex') + 'x'.repeat(5000)));
});
const ask = (port, i) => new Promise((done, failed) => {
  const request = http.request({ port, host: '127.0.0.1', agent, method: 'POST' }, (response) => {
    let text = '';
    response.on('data', (piece) => (text += piece));
    response.on('end', () => done(text.slice(0, 32) + ' ' + text.length));
  });
  request.on('error', failed);
  request.end(Buffer.alloc(1000 * i, i));
});
const stream = () => new Promise((done) => {
  const echo = net.createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1', () => {
    const socket = net.connect(echo.address().port, '127.0.0.1'), hash = crypto.createHash('md5');
    socket.on('data', (piece) => hash.update(piece));
    socket.on('end', () => { echo.close(); done(hash.digest('hex')); });
    for (let i = 0; i < 100; i++) socket.write(Buffer.alloc(100000, i));
    socket.end();
  });
});
server.listen(0, '127.0.0.1', async () => {
  const all = await Promise.all([...Array(60).keys()].map((i) => ask(server.address().port, i + 1)));
  all.forEach((line) => console.log(line));
  console.log(await stream());
  agent.destroy();
  server.close();
});
EOF
node job.js
