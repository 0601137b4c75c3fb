import net from 'node:net';
import { StartError } from './start-error.ts';

/** A port that cannot be had. */
export class PortError extends StartError {
  override readonly name = 'PortError';
}

/** @throws PortError saying which variable to set to what */
export async function assertPortFree(variable: string, port: number, host: string): Promise<void> {
  const code = await tryListen(port, host);
  if (code === undefined) return;
  const hostVariable = variable.replace(/PORT$/, 'HOST');
  if (code === 'EADDRINUSE') throw new PortError(`Port ${port} on ${host} is taken by another program: set ${variable} to a free port.`);
  if (code === 'EACCES') throw new PortError(`Port ${port} is not open to this user: set ${variable} to a free port above 1023.`);
  throw new PortError(`${host} is no address of this machine (${code}): set ${hostVariable} to one, such as 127.0.0.1.`);
}

/** `wished` where it is free on the loopback address, else any free port there. */
export async function findFreePort(wished?: number): Promise<number> {
  if (wished !== undefined && (await tryListen(wished, '127.0.0.1')) === undefined) return wished;
  const server = net.createServer();
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('the system gave no port number');
  return address.port;
}

/** The error's code where the port cannot be listened on. */
function tryListen(port: number, host: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}
