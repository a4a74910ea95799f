// The API keys of the control plane: a JSON file with the SHA-256 and the owner of each key. A key has 256
// random bits, so a plain hash of it can neither be reversed nor guessed.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, statSync, writeSync } from 'node:fs'
import type { Logger } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { z } from 'zod'

const MODE = 0o600

const ownerSchema = z.strictObject({
  tenant: z.string().min(1),
  env: z.string().min(1),
  clientName: z.string().min(1),
  clientVersion: z.string().min(1),
})

/** The client that a key belongs to: the response of `/api/auth/validate-key`, and the folder it may upload to. */
export type KeyOwner = z.output<typeof ownerSchema>

/** `write` may upload, `read` may download. Either may list objects. */
export type KeyAccess = 'write' | 'read'

export interface KeyGrant {
  readonly owner: KeyOwner
  readonly access: KeyAccess
}

const fileSchema = z.strictObject({
  version: z.literal(1),
  keys: z.array(
    z.strictObject({
      sha256: z.string().regex(/^[0-9a-f]{64}$/, 'expected 64 lower-case hexadecimal digits'),
      createdAt: z.string(),
      access: z.enum(['write', 'read']).default('write'),
      ...ownerSchema.shape,
    }),
  ),
})

type KeyFile = z.output<typeof fileSchema>

/** Adds a new key to the file, which is created if missing. Returns the key, which is stored nowhere. */
export function addKey(path: string, owner: KeyOwner, now: Date, access: KeyAccess = 'write'): string {
  const file = readOr(path, { version: 1, keys: [] })
  const key = `svck_${randomBytes(32).toString('base64url')}`
  file.keys.push({
    sha256: digest(key).toString('hex'),
    createdAt: now.toISOString(),
    access,
    ...ownerSchema.parse(owner),
  })
  const temporary = `${path}.tmp-${process.pid}`
  const fd = openSync(temporary, 'wx', MODE)
  try {
    writeSync(fd, `${JSON.stringify(file, null, 2)}\n`)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(temporary, path)
  return key
}

/** The valid keys. The file is read again when it changes, so keys are added and removed without a restart. */
export class KeyRing {
  readonly #path: string
  readonly #logger: Logger
  #keys: readonly (KeyGrant & { readonly hash: Buffer })[] = []
  #version = ''

  /** Throws if the file cannot be read. */
  constructor(path: string, logger: Logger) {
    this.#path = path
    this.#logger = logger
    this.#load()
  }

  /** The grant of the key; undefined for an unknown key. Takes the same time for every key. */
  grantOf(key: string): KeyGrant | undefined {
    this.#reloadIfChanged()
    const presented = digest(key)
    let grant: KeyGrant | undefined
    for (const { hash, ...held } of this.#keys) if (timingSafeEqual(hash, presented)) grant = held
    return grant
  }

  #reloadIfChanged(): void {
    try {
      if (versionOf(this.#path) !== this.#version) this.#load()
    } catch (error) {
      this.#logger.error({ reason: messageOf(error) }, 'key file not reloaded; the old keys stay valid')
    }
  }

  #load(): void {
    const version = versionOf(this.#path)
    const { keys } = read(this.#path)
    this.#version = version
    this.#keys = keys.map(({ sha256, createdAt: _, access, ...owner }) => ({
      hash: Buffer.from(sha256, 'hex'),
      access,
      owner,
    }))
  }
}

function versionOf(path: string): string {
  try {
    const { mtimeMs, size, ino } = statSync(path)
    return `${mtimeMs} ${size} ${ino}`
  } catch (cause) {
    const why = messageOf(cause)
    throw new Error(`the key file cannot be read; \`npx @svc/control-plane add-key\` creates one: ${why}`, {
      cause,
    })
  }
}

function readOr(path: string, empty: KeyFile): KeyFile {
  try {
    return read(path)
  } catch (error) {
    const { cause } = error as Error
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return empty
    throw error
  }
}

function read(path: string): KeyFile {
  let value: unknown
  try {
    value = JSON.parse(readFileSync(path, 'utf8'))
  } catch (cause) {
    throw new Error(`${path}: the key file cannot be read: ${messageOf(cause)}`, { cause })
  }
  const parsed = fileSchema.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new Error(`${path}: not a key file: ${issue?.path.join('.')}: ${issue?.message}`)
}

function digest(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}
