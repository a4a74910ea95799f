// `audit.export`: receivers to which records are sent.

import { resolve } from 'node:path'
import type { PluginContext } from '@svc/core'
import { isLoopbackHost } from '@svc/core/http'
import { isUrl } from '@svc/core/json'
import { keyRefSchema, secureUrlError } from '@svc/core/policy'
import { KeyReader } from '@svc/core/secret'
import { z } from 'zod'
import type { ExportConfig, ReceiverConfig, ReceiverSecrets } from './log/export/config.js'
import { isDay } from './log/tree/journal-line.js'

const MAX_PEM_BYTES = 1_048_576
const milliseconds = () => z.number().int().min(1).max(2_147_483_647)
const pem = (what: string) =>
  keyRefSchema.optional().describe(`${what}, PEM: file://PATH, env:NAME or command:NAME.`)

const receiverSchema = z
  .strictObject({
    type: z
      .enum(['otlp', 'syslog', 'file'])
      .describe('`otlp`: OpenTelemetry logs over HTTP. `syslog`: RFC 5424. `file`: a line for each record.'),
    name: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'expected lower case letters, digits and hyphens')
      .optional()
      .describe('Name of the receiver in messages and in the file of its positions; default: the type.'),
    format: z
      .enum(['ocsf', 'record'])
      .default('ocsf')
      .describe('`ocsf`: API Activity (6003) of OCSF 1.9.0. `record`: the record as it is stored.'),
    url: z
      .string()
      .min(1)
      .optional()
      .describe(
        'For `otlp`: the address of its logs, such as `https://collector.example.com:4318/v1/logs`. For `syslog`: `tls://HOST:PORT` (RFC 5425), or `tcp://` for a loopback address.',
      ),
    authorization: keyRefSchema
      .optional()
      .describe(
        'For `otlp`: reference of the whole `Authorization` header: file://PATH, env:NAME or command:NAME.',
      ),
    ca: pem("Authorities that may have issued the receiver's certificate, in place of those of Node"),
    cert: pem('The certificate of this gateway'),
    key: pem('Its private key'),
    serverName: z
      .string()
      .min(1)
      .optional()
      .describe("For `syslog`: the name in the receiver's certificate; default: the host of `url`."),
    path: z.string().min(1).optional().describe('For `file`: its path.'),
    maxMb: z
      .number()
      .positive()
      .optional()
      .describe('For `file`: mebibytes at which it is renamed to `<path>.<time>`; default 100.'),
    files: z
      .number()
      .int()
      .min(1)
      .optional()
      .describe('For `file`: renamed files that are kept; default 10.'),
    since: z
      .string()
      .refine(isDay, 'expected YYYY-MM-DD')
      .optional()
      .describe('The first day that is exported; default: the oldest of the log.'),
    timeoutMs: milliseconds().default(30_000).describe('Time limit of each attempt to send.'),
    maxDelayMs: milliseconds().default(900_000).describe('How long records may wait before `/readyz` warns.'),
  })
  .superRefine((receiver, context) => {
    for (const [key, message] of mistakesOf(receiver)) {
      context.addIssue({ code: 'custom', path: [key], message })
    }
  })

/** The keys of each type beside those of all. */
const keysOf = {
  otlp: ['url', 'authorization', 'ca', 'cert', 'key'],
  syslog: ['url', 'serverName', 'ca', 'cert', 'key'],
  file: ['path', 'maxMb', 'files'],
} as const
const ownKeys = [...new Set(Object.values(keysOf).flat())]

type ReceiverKeys = z.output<typeof receiverSchema>

function* mistakesOf(receiver: ReceiverKeys): Generator<[key: keyof ReceiverKeys, message: string]> {
  const { type, url = '', authorization, cert, key, serverName, ca } = receiver
  const accepted: readonly string[] = keysOf[type]
  for (const name of ownKeys) {
    if (receiver[name] !== undefined && !accepted.includes(name))
      yield [name, `is not a key of the type ${type}`]
  }
  const required = type === 'file' ? 'path' : 'url'
  if (receiver[required] === undefined) yield [required, `missing; the type ${type} requires it`]
  else if (type === 'otlp' && !isPlainUrl(url, /^https?:$/)) {
    yield ['url', 'must be an http or https URL without credentials, query or fragment']
  } else if (type === 'otlp' && authorization !== undefined) {
    const insecure = secureUrlError(url)
    if (insecure !== undefined) yield ['url', insecure]
  } else if (type === 'syslog') {
    if (!isPlainUrl(url, /^(?:tls|tcp):$/))
      yield ['url', 'must be tls://HOST:PORT, or tcp:// on a loopback address']
    else if (url.startsWith('tcp:')) {
      if (!isLoopback(url))
        yield ['url', 'is not a loopback address; use tls://, as tcp:// shows records to the network']
      const unused = Object.entries({ ca, cert, key, serverName }).find(
        ([, value]) => value !== undefined,
      )?.[0]
      if (unused !== undefined) yield [unused as 'ca', 'is for tls:// only']
    }
  }
  if ((cert === undefined) !== (key === undefined)) {
    yield [cert === undefined ? 'cert' : 'key', 'missing; cert and key belong together']
  }
}

function isPlainUrl(text: string, protocols: RegExp): boolean {
  if (!isUrl(text)) return false
  const { protocol, hostname, username, password, search, hash } = new URL(text)
  return (
    protocols.test(protocol) &&
    hostname !== '' &&
    [username, password, search, hash].every((part) => part === '')
  )
}

function isLoopback(url: string): boolean {
  return isLoopbackHost(new URL(url).hostname)
}

export const exportSchema = z
  .array(receiverSchema)
  .min(1)
  .superRefine((receivers, context) => {
    const names = receivers.map(({ name, type }) => name ?? type)
    for (const [index, name] of names.entries()) {
      if (names.indexOf(name) === index) continue
      const message = `is the name of another receiver too; give each a name`
      context.addIssue({ code: 'custom', path: [index, 'name'], message })
    }
  })
  .optional()
  .describe('Receivers to which records are sent from the durable log, each at least once.')

type ExportSection = z.output<typeof exportSchema>

/** The receivers as the writer takes them: paths absolute, and secrets read for each connection. */
export function exportsOf(section: ExportSection, context: PluginContext): ExportConfig[] {
  const reader = new KeyReader(context)
  return (section ?? []).map((keys) => ({
    receiver: receiverOf(keys, context.baseDir),
    secrets: () => secretsOf(keys, reader),
  }))
}

function receiverOf(keys: ReceiverKeys, baseDir: string): ReceiverConfig {
  const { type, name = type, format, since, timeoutMs, maxDelayMs, url = '' } = keys
  const common = { name, format, since, timeoutMs, maxDelayMs }
  if (type === 'otlp') return { ...common, type, url }
  if (type === 'syslog') return { ...common, type, url, serverName: keys.serverName }
  const { path = '', maxMb = 100, files = 10 } = keys
  return { ...common, type, path: resolve(baseDir, path), maxBytes: maxMb * 1_048_576, files }
}

async function secretsOf(keys: ReceiverKeys, reader: KeyReader): Promise<ReceiverSecrets> {
  const read = async (name: keyof ReceiverSecrets) => {
    const ref = keys[name]
    return ref === undefined ? {} : { [name]: await reader.read(ref, MAX_PEM_BYTES) }
  }
  return Object.assign(
    {},
    ...(await Promise.all((['authorization', 'ca', 'cert', 'key'] as const).map(read))),
  )
}
