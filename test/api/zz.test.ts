import { it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { startGate } from '../support/gate.ts';
import { startApiProcess } from '../support/processes.ts';
import { startServers } from '../support/servers.ts';
it('x', async () => {
  const servers = await startServers(() => undefined);
  const mongo = await startGate(servers.mongod.port);
  const u = new URL(servers.mongod.url); u.port = String(mongo.port); u.search = '?directConnection=true';
  const api = await startApiProcess({ MONGODB_URL: u.href, REDIS_URL: servers.redis.url, CHALLENGE_SECRET: 'c0'.repeat(32), LOG_LEVEL: 'trace' });
  if (process.env.OPENED) await mongo.open();
  await sleep(4000);
  await mongo.open();
  await sleep(6000);
  console.log((await fetch(api.url + '/api/v1/feed')).status);
  console.log(api.logged().slice(0, 5000));
  await api.stop(); await mongo.shut(); await servers.stop();
});
