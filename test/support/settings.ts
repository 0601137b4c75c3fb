import type { VariableName } from '../../shared/platform/config.ts'

export const SECRET = 'ab'.repeat(32)
export const REQUIRED = {
  MONGODB_URL: 'mongodb://127.0.0.1:1/x',
  REDIS_URL: 'redis://127.0.0.1:2',
  CHALLENGE_SECRET: SECRET,
}
export const ADDRESS = 'nano_3e3j5tkog48pnny9dmfzj1r16pg8t1e76dz5tmac6iq689wyjfpiij4txtdo'

/** Each variable with values that it takes and values that it refuses; free text and paths refuse nothing. */
export const VALUES: Record<VariableName, { right: string[]; wrong: string[] }> = {
  PORT: { right: ['0', '3000', '65535'], wrong: ['65536', '-1', '3e3', '80.5', 'http', ' 80', '0x50'] },
  HOST: { right: ['127.0.0.1'], wrong: [] },
  BASE_URL: {
    right: ['https://agents.example/'],
    wrong: ['agents.example', 'ftp://agents.example', 'https://', 'https://a b'],
  },
  ALLOWED_HOSTS: { right: ['agents.example', 'a.example,b'], wrong: ['a.example:3000', 'https://a', 'a,'] },
  SECURITY_CONTACT: {
    right: ['mailto:keys@example.org', 'https://example.org/security'],
    wrong: ['keys@example.org', 'http://example.org', 'mailto:', 'https://a b'],
  },
  OPERATOR_PORT: { right: ['0', '3001'], wrong: ['70000', 'none'] },
  OPERATOR_HOST: { right: ['127.0.0.1'], wrong: [] },
  OPERATOR_TOKEN: { right: ['0123456789abcdef'], wrong: ['short'] },
  BOARD_WRITES: { right: ['0', '1'], wrong: ['yes'] },
  METRICS_PORT: { right: ['0', '9100'], wrong: ['65536', 'on'] },
  METRICS_TOKEN: { right: ['0123456789abcdef'], wrong: ['short'] },
  REQUEST_SECONDS: { right: ['1', '1.8', '15'], wrong: ['0.9', '16', '-1', '2s'] },
  DRAIN_SECONDS: { right: ['0', '2.5', '30'], wrong: ['31', '-1', '5s'] },
  DATA_DIR: { right: ['data'], wrong: [] },
  MIN_FREE_DISK_GB: { right: ['0', '0.5', '20'], wrong: ['-1', '1GB', '100001'] },
  MONGODB_URL: { right: ['mongodb://a/b', 'mongodb+srv://a/b'], wrong: ['http://a', 'localhost:27017'] },
  REDIS_URL: {
    right: [
      'redis://a',
      'rediss://user:word@a:6380/2',
      'redis://[::1]:6379/0',
      'redis+cluster://:word@a:1,b:2,c',
      'rediss+cluster://a',
      'redis+sentinel://a:26379,b/primary',
      'redis+sentinel://a/primary/3',
    ],
    wrong: [
      'http://a',
      '127.0.0.1:6379',
      'redis://',
      'redis://a,b',
      'redis://a:99999',
      'redis://a/x',
      'redis://a/1/2',
      'redis+cluster://a/1',
      'redis+sentinel://a',
      'redis+other://a',
      'redis://%zz@a',
    ],
  },
  QUEUE_PREFIX: { right: ['agents-1'], wrong: ['a:b', '{a}', 'A', 'a'.repeat(41)] },
  SEAL_KEY_FILE: { right: ['seal.key'], wrong: [] },
  SEAL_MEMORY_FILE: { right: ['seal.memory'], wrong: [] },
  SEAL_PEERS: {
    right: ['https://mirror.example', 'http://127.0.0.1:3000/, https://b.example/agents'],
    wrong: ['mirror.example', 'https://a,b', 'ftp://a', 'https://'],
  },
  LEDGER_ORIGIN: { right: ['agents.example.org/ledger'], wrong: ['two words', 'a+b'] },
  WITNESSES: {
    right: [
      'witness.example/w1+05a4155f+BAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB@https://witness.example',
    ],
    wrong: ['https://witness.example', 'w@https://witness.example'],
  },
  WITNESS_QUORUM: { right: ['0'], wrong: ['16', '1', 'all', '-1'] },
  SEAL_INTERVAL_SECONDS: { right: ['600', '0.5'], wrong: ['0', '-600', '86401', '10m'] },
  SWEEP_SECONDS: { right: ['15'], wrong: ['0', '3601', 'often'] },
  CHALLENGE_SECRET: {
    right: [SECRET, 'ab'.repeat(40)],
    wrong: ['ab'.repeat(31), 'AB'.repeat(32), 'zz'.repeat(32)],
  },
  SIGNUPS: { right: ['open', 'closed'], wrong: ['Open', 'true', 'no'] },
  FREE_UNTIL: {
    right: ['none', '2030-01-31T00:00:00+00:00', '2030-01-31T00:00:00Z', '2030-01-31T12:30:00.5-05:00'],
    wrong: ['2031-12-31', '2031-12-31T00:00:00', '2030-02-30T00:00:00Z', '1900000000', 'never'],
  },
  REGISTER_BITS: { right: ['0', '20', '64'], wrong: ['65', '-1', '20.5', 'twenty'] },
  SHARE_BITS: { right: ['26'], wrong: ['65', '2.6e1'] },
  SHARES_PER_DAY: { right: ['1', '500'], wrong: ['0', '100001', '1.5'] },
  INVOICE_MINUTES: { right: ['60', '0.05'], wrong: ['0', '-1', '525601'] },
  PAY_BY_MINUTES: { right: ['60'], wrong: ['0', 'hour'] },
  ACCEPT_HOURS: { right: ['72', '0.001'], wrong: ['0', '8761'] },
  DISPUTE_HOLD_MINUTES: { right: ['10', '0', '0.05'], wrong: ['-1', '1441', 'ten'] },
  XNO_USD: { right: ['0.95', '12'], wrong: ['0', '0.00', '-1', '1e3', '$1', '1,5'] },
  XMR_USD: { right: ['160.5'], wrong: ['0', 'free'] },
  RATE_SOURCES: {
    right: [
      'xno=https://a.example/x#data.price,xno=https://b.example/x#p',
      'xno=http://a/x#p, xmr=http://b/y#q[0].r, xmr=http://c/#p, xno=http://b/#p',
    ],
    wrong: [
      ...[
        'btc=https://a/x#p,btc=https://b/x#p',
        'xno=https://a/x',
        'https://a/x#p',
        'xno=https://a/x#p',
        'xno=https://a/x#p,xmr=https://b/#p',
      ],
      ...[
        'xno=https://a/x#p,xno=https://a/x#p',
        'xno=https://a/x#p,xno=https://a:443/y#q',
        'xno=https://a/#p,xno=https://b/#p,xno=https://b/#q',
      ],
    ],
  },
  NANO_RPC_URL: { right: ['http://127.0.0.1:7076'], wrong: ['ws://127.0.0.1:7076', '127.0.0.1:7076'] },
  NANO_WS_URL: { right: ['ws://127.0.0.1:7078', 'wss://a'], wrong: ['http://127.0.0.1:7078'] },
  NANO_WORK_URL: { right: ['http://127.0.0.1:7000'], wrong: ['tcp://a'] },
  NANO_SEED_FILE: { right: ['seed'], wrong: [] },
  NANO_REPRESENTATIVE: {
    right: [ADDRESS],
    // The last has a wrong checksum.
    wrong: [
      ADDRESS.replace('nano', 'xrb'),
      ADDRESS.slice(0, -1),
      ADDRESS.replace('_3', '_2'),
      ADDRESS.replace(/o$/, 'p'),
    ],
  },
  MONERO_WALLET_RPC_URL: { right: ['http://user:word@127.0.0.1:18083'], wrong: ['127.0.0.1:18083'] },
  MONERO_CONFIRMATIONS: { right: ['1', '10'], wrong: ['0', '1001', '1.5'] },
  DOORBELLS: { right: ['0', '1'], wrong: ['yes'] },
  DOORBELL_HOSTS: {
    right: ['workers.example', 'a.example,b.example'],
    wrong: ['a.example:443', 'https://a'],
  },
  DOORBELL_INTERVAL_SECONDS: { right: ['60', '0.5'], wrong: ['0', '86401', '1m'] },
  DOORBELL_KEY_FILE: { right: ['doorbell-key'], wrong: [] },
  DOORBELL_TEST_HOSTS: {
    right: ['bell.example:8443=127.0.0.1', 'a:1=::1,b:2=127.0.0.2'],
    wrong: ['bell.example=127.0.0.1', 'bell.example:8443'],
  },
  SANDBOX_FAUCET_URL: { right: ['http://127.0.0.1:7079'], wrong: ['ws://127.0.0.1:7079', '127.0.0.1:7079'] },
  PAYMENT_POLL_SECONDS: { right: ['10', '0.2'], wrong: ['0', 'fast'] },
  PAYOUTS: { right: ['manual', 'automatic'], wrong: ['auto', 'true'] },
  MIN_PAYOUT_XNO: { right: ['0.01', '0'], wrong: ['-1', '.5', '1 XNO'] },
  MIN_PAYOUT_XMR: { right: ['0.001'], wrong: ['1e-3'] },
  MAX_FEE_XMR: { right: ['0.01'], wrong: ['-1'] },
  LOG_LEVEL: { right: ['trace', 'silent'], wrong: ['verbose'] },
}
