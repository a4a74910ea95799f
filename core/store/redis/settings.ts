// The settings of a Redis or Valkey, the same in every section that has a store there.

import { z } from 'zod'
import { isUrl } from '../../json/index.js'

export const redisUrl = z
  .string()
  .refine(isRedisUrl, 'must be redis://[user:password@]host[:port][/db], or rediss:// for TLS')

/** The keys of a section's `redis` object that select the server. */
export const redisSettings = {
  cluster: z.boolean().default(false).describe('`redisUrl` names one node of a cluster.'),
  sentinel: z
    .string()
    .min(1)
    .optional()
    .describe('`redisUrl` names a Sentinel that monitors a primary of this name.'),
  nodes: z
    .array(z.string().regex(/^.+:[0-9]{1,5}$/, 'must be host:port'))
    .optional()
    .describe('Further nodes of the cluster, or Sentinels, as `host:port`.'),
  connectTimeoutMs: z
    .number()
    .int()
    .min(1)
    .max(60_000)
    .default(2000)
    .describe('Milliseconds within which a connection has to be established.'),
}

type Settings = z.output<z.ZodObject<typeof redisSettings>>

export type RedisSettings = { readonly [K in keyof Settings]?: Settings[K] | undefined }

/** Checks for `superRefine` that keys do not contradict each other. */
export function checkRedisSettings(
  { cluster, sentinel, nodes }: Settings,
  context: z.core.$RefinementCtx,
): void {
  if (cluster && sentinel !== undefined) {
    context.addIssue({ code: 'custom', path: ['sentinel'], message: 'cannot be combined with cluster: true' })
  }
  if (nodes !== undefined && !cluster && sentinel === undefined) {
    context.addIssue({ code: 'custom', path: ['nodes'], message: 'requires cluster or sentinel' })
  }
}

/** Checks for `superRefine` which keys go with the chosen adapter. */
export function checkStoreChoice(chosen: StoreChoice, context: z.core.$RefinementCtx): void {
  const mistake = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message })
  for (const [key, adapter] of Object.entries({ dir: 'lmdb', redisUrl: 'redis', redis: 'redis' } as const)) {
    if (chosen[key as keyof StoreChoice] !== undefined && chosen.adapter !== adapter)
      mistake(key, `is for the adapter ${adapter} only`)
  }
  if (chosen.adapter === 'redis' && chosen.redisUrl === undefined)
    mistake('redisUrl', 'is required by the adapter redis')
}

interface StoreChoice {
  /** A name, or an object given in code. */
  readonly adapter?: unknown
  readonly dir?: unknown
  readonly redisUrl?: unknown
  readonly redis?: unknown
}

function isRedisUrl(given: string): boolean {
  if (!isUrl(given)) return false
  const { protocol, hostname, pathname, search, hash } = new URL(given)
  const isBare = search === '' && hash === '' && /^(\/[0-9]{0,5})?$/.test(pathname)
  return (protocol === 'redis:' || protocol === 'rediss:') && hostname !== '' && isBare
}
