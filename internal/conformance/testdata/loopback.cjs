// Loaded into kinesis-local, which would listen on every interface: a server that
// names a port and no host listens on the loopback interface only.
const { Server } = require("node:net");
const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
  return typeof rest[0] === "string" ? listen.call(this, port, ...rest) : listen.call(this, port, "127.0.0.1", ...rest);
};
