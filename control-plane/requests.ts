// Checks requests: a client may put, list and get only its own objects, under the keys that openapi.yaml describes.
import { pathSegment } from '@svc/core/json'
import { z } from 'zod'
import type { KeyOwner } from './key-file.js'

/** S3's limit for one PUT. */
const MAX_BYTES = 5 * 1024 ** 3
/** The folders by `mode`. */
const FOLDERS = {
  audit: 'ingest',
  agent: 'agents',
  raw: 'raw',
  tree: 'tree',
  cover: 'covers',
  journal: 'journal',
  checkpoint: 'checkpoints',
} as const

/** Names of files without range and hash. */
const FILES = {
  audit: /^audit-\d{4}-\d\d-\d\d$/,
  agent: /^[\w.%-]+$/,
  raw: /^raw-\d{4}-\d\d-\d\d$/,
  tree: /^audit-[0-9a-f]{16}-(0|[1-9]\d?)-(0|[1-9]\d{0,11})$/,
  cover: /^audit-\d{4}-\d\d-\d\d$/,
  journal: /^audit-[0-9a-f]{16}$/,
  checkpoint: /^audit-\d{4}-\d\d-\d\d$/,
} as const
/** Modes whose files name the date. */
const DATED: ReadonlySet<string> = new Set(['audit', 'raw', 'cover', 'checkpoint'])

const owner = {
  tenant: z.string(),
  env: z.string(),
  clientName: z.string(),
  clientVersion: z.string(),
}
const key = z.string().min(1).max(1_024)

const uploadRequestSchema = z.strictObject({
  ...owner,
  key,
  contentType: z.literal('application/x-ndjson'),
  contentLength: z.int().min(1).max(MAX_BYTES),
  date: z.string().regex(/^\d{4}-\d\d-\d\d$/, 'expected YYYY-MM-DD'),
  mode: z.enum(['audit', 'agent', 'raw', 'tree', 'cover', 'journal', 'checkpoint']),
  checksumSha256: z
    .string()
    .regex(/^[A-Za-z0-9+/]{43}=$/, 'expected 32 bytes as base64')
    .optional(),
})

export type UploadRequest = z.output<typeof uploadRequestSchema>

const listRequestSchema = z.strictObject({
  ...owner,
  prefix: key,
  after: key.optional(),
  checksums: z.boolean().optional(),
})
const downloadRequestSchema = z.strictObject({ ...owner, key })

/** A request that a client may not make. */
export class RefusedRequest extends Error {
  override readonly name = 'RefusedRequest'
  constructor(
    readonly code: 'BAD_REQUEST' | 'FORBIDDEN',
    message: string,
  ) {
    super(message)
  }
}

/** The parsed body of `/api/svc/upload-url`, sent with a key of `caller`. Throws `RefusedRequest`, as do the others. */
export function uploadIn(body: unknown, caller: KeyOwner): UploadRequest {
  return requestIn(uploadRequestSchema, body, caller, errorOfKey)
}

/** The parsed body of `/api/svc/objects`. */
export function listingIn(body: unknown, caller: KeyOwner): z.output<typeof listRequestSchema> {
  return requestIn(listRequestSchema, body, caller, ({ prefix }) => errorOfPath('prefix', prefix, caller))
}

/** The parsed body of `/api/svc/download-url`. */
export function downloadIn(body: unknown, caller: KeyOwner): z.output<typeof downloadRequestSchema> {
  return requestIn(downloadRequestSchema, body, caller, ({ key }) => errorOfPath('key', key, caller))
}

function requestIn<T extends KeyOwner>(
  schema: z.ZodType<T>,
  body: unknown,
  caller: KeyOwner,
  errorOf: (request: T, caller: KeyOwner) => string | undefined,
): T {
  const parsed = schema.safeParse(body)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    throw new RefusedRequest('BAD_REQUEST', `${issue?.path.join('.') || 'body'}: ${issue?.message}`)
  }
  const foreign = foreignField(parsed.data, caller)
  if (foreign !== undefined) throw new RefusedRequest('FORBIDDEN', foreign)
  const why = errorOf(parsed.data, caller)
  if (why !== undefined) throw new RefusedRequest('BAD_REQUEST', why)
  return parsed.data
}

/** The field in which a request does not concern `owner`; undefined if it does. */
function foreignField(request: KeyOwner, owner: KeyOwner): string | undefined {
  const fields = ['tenant', 'env', 'clientName', 'clientVersion'] as const
  const foreign = fields.find((field) => request[field] !== owner[field])
  return foreign && `${foreign}: not the one of this API key`
}

/** The folders, from the root of the store, that hold all objects of `owner`. */
export function foldersOf({ tenant, env, clientName, clientVersion }: KeyOwner): string[] {
  const names = ['tenants', pathSegment(tenant), pathSegment(env), 'clients', pathSegment(clientName)]
  return [...names, pathSegment(clientVersion)]
}

function errorOfKey(
  { key, mode, date, contentLength, checksumSha256 }: UploadRequest,
  owner: KeyOwner,
): string | undefined {
  const segments = key.split('/')
  const folder = [...foldersOf(owner), FOLDERS[mode]]
  if (mode === 'agent') folder.push(segments[folder.length] ?? '')
  folder.push(date)
  if (segments.length !== folder.length + 1 || folder.some((segment, i) => segments[i] !== segment)) {
    return `key: expected ${folder.join('/')}/<file>`
  }
  if (segments.some((segment) => segment === '.' || segment === '..' || !/^[\w.%-]+$/.test(segment))) {
    return 'key: a segment has characters outside A-Z a-z 0-9 . _ % -, or is . or ..'
  }
  const [, file = '', start, end, digest = ''] =
    /^(.+)-(0|[1-9]\d{0,15})-([1-9]\d{0,15})-([0-9a-f]{16})\.ndjson$/.exec(segments.at(-1) ?? '') ?? []
  const isDay = new Date(Date.parse(`${date}T00:00Z`) || 0).toISOString().startsWith(date)
  if (!isDay || !FILES[mode].test(file) || (DATED.has(mode) && !file.endsWith(date))) {
    return 'key: expected a file of this mode and date'
  }
  if (Number(end) - Number(start) !== contentLength || !Number.isSafeInteger(Number(end))) {
    return 'key: expected <file>-<start>-<end>-<16 hex digits>.ndjson, of contentLength bytes'
  }
  // An object with other bytes under this name would keep the right ones out.
  if (
    checksumSha256 !== undefined &&
    !Buffer.from(checksumSha256, 'base64').toString('hex').startsWith(digest)
  ) {
    return 'key: expected the first 16 hex digits of checksumSha256'
  }
  return undefined
}

function errorOfPath(field: string, path: string, caller: KeyOwner): string | undefined {
  const folder = `${foldersOf(caller).join('/')}/`
  const isOwn = path.startsWith(folder) && !/(^|\/)\.{0,2}(\/|$)/.test(path.slice(0, -1))
  return isOwn ? undefined : `${field}: expected to begin with ${folder}`
}
