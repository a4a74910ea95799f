// The API keys of the reference control plane: a JSON file that holds the SHA-256 of each key and whose key
// it is. A key has 256 random bits, so a plain hash of it can neither be reversed nor guessed.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, statSync, writeSync } from 'node:fs'
import { type Logger, messageOf } from '@svc/core'
import { z } from 'zod'

const MODE = 0o600

const ownerSchema = z.strictObject({
  tenant: z.string().min(1),
  env: z.string().min(1),
  clientName: z.string().min(1),
  clientVersion: z.string().min(1),
})

/** Whose key it is: what `/api/auth/validate-key` answers, and where its bytes may go. */
export type KeyOwner = z.output<typeof ownerSchema>

const fileSchema = z.strictObject({
  version: z.literal(1),
  keys: z.array(
    z.strictObject({
      sha256: z.string().regex(/^[0-9a-f]{64}$/, 'expected 64 lower-case hexadecimal digits'),
      createdAt: z.string(),
      ...ownerSchema.shape,
    }),
  ),
})

type KeyFile = z.output<typeof fileSchema>

/** Adds a fresh key to the file, which is made where it is missing, and returns the key: it is kept nowhere. */
export function addKey(path: string, owner: KeyOwner, now: Date): string {
  const file = readOr(path, { version: 1, keys: [] })
  const key = `svck_${randomBytes(32).toString('base64url')}`
  file.keys.push({
    sha256: digest(key).toString('hex'),
    createdAt: now.toISOString(),
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

/** The keys in force. The file is looked at again when it changes, so keys come and go without a restart. */
export class KeyRing {
  readonly #path: string
  readonly #logger: Logger
  #keys: readonly { hash: Buffer; owner: KeyOwner }[] = []
  #version = ''

  /** Throws where the file cannot be read. */
  constructor(path: string, logger: Logger) {
    this.#path = path
    this.#logger = logger
    this.#load()
  }

  /** Whose key it is; undefined for a key that is not in the file. Takes as long for any key. */
  ownerOf(key: string): KeyOwner | undefined {
    this.#lookAgain()
    const presented = digest(key)
    let owner: KeyOwner | undefined
    for (const { hash, owner: held } of this.#keys) if (timingSafeEqual(hash, presented)) owner = held
    return owner
  }

  #lookAgain(): void {
    try {
      if (versionOf(this.#path) !== this.#version) this.#load()
    } catch (fault) {
      this.#logger.error({ reason: messageOf(fault) }, 'key file not read again; the old keys stay in force')
    }
  }

  #load(): void {
    const version = versionOf(this.#path)
    const { keys } = read(this.#path)
    this.#version = version
    this.#keys = keys.map(({ sha256, createdAt: _, ...owner }) => ({
      hash: Buffer.from(sha256, 'hex'),
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
    throw new Error(`the key file cannot be read, \`npx svc-sdk control-plane add-key\` makes one: ${why}`, {
      cause,
    })
  }
}

function readOr(path: string, empty: KeyFile): KeyFile {
  try {
    return read(path)
  } catch (fault) {
    const { cause } = fault as Error
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return empty
    throw fault
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
