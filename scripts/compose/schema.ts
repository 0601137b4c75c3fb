import { z } from 'zod'

/**
 * The part of the Compose specification that our file uses. Any other key is refused, as it may be a mistake.
 */

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()])
const command = z.array(z.string())
const duration = z.string().regex(/^(\d+h)?(\d+m)?(\d+s)?$/, 'expected a duration such as 30s or 5m')

const secretUse = z.strictObject({
  source: z.string(),
  target: z.string().optional(),
  uid: z.string().regex(/^\d+$/),
  gid: z.string().regex(/^\d+$/),
  mode: z.number(),
})

const healthcheck = z.strictObject({
  test: z.array(z.string()).min(2),
  interval: duration,
  timeout: duration,
  start_period: duration,
  retries: z.int().positive(),
})

const service = z.strictObject({
  image: z.string(),
  build: z
    .union([z.string(), z.strictObject({ context: z.string(), args: z.record(z.string(), z.string()) })])
    .optional(),
  user: z.string().regex(/^\d+:\d+$/, 'expected uid:gid in numbers'),
  entrypoint: command.optional(),
  command: command.optional(),
  environment: z.record(z.string(), scalar).default({}),
  secrets: z.array(secretUse).default([]),
  volumes: z.array(z.string()).default([]),
  tmpfs: z.array(z.string()).default([]),
  networks: z.array(z.string()).min(1, 'expected at least one network'),
  ports: z.array(z.string()).default([]),
  profiles: z.array(z.string()).optional(),
  deploy: z.strictObject({ replicas: z.int().positive() }).optional(),
  depends_on: z
    .record(
      z.string(),
      z.strictObject({
        condition: z.enum(['service_started', 'service_healthy', 'service_completed_successfully']),
      }),
    )
    .default({}),
  healthcheck: healthcheck.optional(),
  init: z.boolean().optional(),
  restart: z.enum(['no', 'on-failure', 'always', 'unless-stopped']),
  stop_grace_period: duration.optional(),
  read_only: z.boolean(),
  cap_drop: z.array(z.string()),
  ulimits: z.strictObject({
    core: z.literal(0, 'core must be 0: a core dump holds secrets'),
    nofile: z.strictObject(
      { soft: z.int().min(1_024), hard: z.int() },
      'expected a soft and a hard number of descriptors',
    ),
  }),
  mem_limit: z
    .string('a container without a memory limit can take the host')
    .regex(/^\d+[mg]$/, 'expected a size such as 512m or 2g'),
  pids_limit: z.int('a container without a limit of processes can take the host').positive(),
  cpus: z.number('a container without a limit of processors can take the host').positive(),
  cap_add: z.undefined('no capability is given back').optional(),
  security_opt: z.array(z.string()),
  logging: z.strictObject({ driver: z.string(), options: z.record(z.string(), z.string()) }),
})

export const composeFile = z
  .object({
    name: z.string(),
    services: z.record(z.string(), service),
    networks: z.record(z.string(), z.strictObject({ internal: z.boolean().optional() })),
    volumes: z.record(z.string(), z.strictObject({})),
    secrets: z.record(z.string(), z.strictObject({ file: z.string() })),
  })
  .catchall(z.unknown())
  .superRefine((file, ctx) => {
    for (const key of Object.keys(file))
      if (!['name', 'services', 'networks', 'volumes', 'secrets'].includes(key) && !key.startsWith('x-'))
        ctx.addIssue({
          code: 'custom',
          path: [key],
          message: 'is no part of a Compose file that is known here',
        })
  })

export type ComposeFile = z.output<typeof composeFile>
export type ComposeService = ComposeFile['services'][string]

/** `1h2m3s` in seconds; 0 for text of another form. */
export function readSeconds(text: string): number {
  const [, hours = '0', minutes = '0', seconds = '0'] = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text) ?? []
  return Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds)
}
