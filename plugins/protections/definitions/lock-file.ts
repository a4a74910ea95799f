// The lock file: the definitions of servers that the operator has read, whole, so that a review of the file is one of them.
import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { DefinitionKind } from '@svc/core'
import {
  CanonicalJsonError,
  canonicalize,
  canonicalizeExact,
  messageOf,
  sha256Hex,
  stringifyJson,
} from '@svc/core/json'
import { formatDiagnostic, readDocument } from '@svc/core/policy'
import { BoundedMap } from '@svc/core/store'
import { z } from 'zod'

/** Bytes of a file: it is read while calls wait. */
const maxBytes = 33_554_432

/** YAML has texts and numbers that JSON has not. */
function definition<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.superRefine((value, context) => {
    try {
      canonicalize(value)
    } catch (error) {
      if (!(error instanceof CanonicalJsonError)) throw error
      context.addIssue({ code: 'custom', message: error.message })
    }
  })
}

const named = z.array(definition(z.looseObject({ name: z.string() }))).optional()

const lockSchema = z.strictObject({
  version: z.literal(1),
  servers: z.record(
    z.string(),
    z.strictObject({
      instructions: z.array(definition(z.string())).optional(),
      tools: named,
      prompts: named,
      templates: z.array(definition(z.looseObject({ uriTemplate: z.string() }))).optional(),
    }),
  ),
})

type LockFile = z.output<typeof lockSchema>

/** The definitions of each server. */
export type LockedServers = Readonly<Record<string, object>>

export class LockFileError extends Error {
  override readonly name = 'LockFileError'
}

export class LockedDefinitions {
  readonly servers: LockFile['servers']
  /** Kinds and hashes by server. */
  #pinned = new Map<string, Set<string>>()
  /** Hashes by server, kind and name. */
  #byName = new Map<string, string[]>()
  #texts = new Map<string, string>()
  /** Schemas of arguments by `<server>/<tool>`; undefined if there are several. */
  #schemas = new Map<string, unknown>()

  constructor({ servers }: Pick<LockFile, 'servers'>) {
    this.servers = servers
    for (const [server, { instructions = [], tools = [], prompts = [], templates = [] }] of Object.entries(
      servers,
    )) {
      this.#pinned.set(server, new Set())
      for (const text of instructions) this.#add(server, 'instructions', '', text)
      for (const tool of tools) {
        this.#add(server, 'tool', tool.name, tool)
        const key = `${server}/${tool.name}`
        this.#schemas.set(key, this.#schemas.has(key) ? undefined : tool['inputSchema'])
      }
      for (const prompt of prompts) this.#add(server, 'prompt', prompt.name, prompt)
      for (const template of templates) this.#add(server, 'template', template.uriTemplate, template)
    }
  }

  #add(server: string, kind: DefinitionKind, name: string, value: unknown): void {
    const { text } = canonicalizeExact(value)
    const sha256 = sha256Hex(text)
    this.#texts.set(sha256, text)
    this.#pinned.get(server)?.add(`${kind} ${sha256}`)
    const key = keyOf(server, kind, name)
    this.#byName.set(key, [...(this.#byName.get(key) ?? []), sha256])
  }

  get tools(): { readonly server: string; readonly name: string }[] {
    return Object.entries(this.servers).flatMap(([server, { tools = [] }]) =>
      tools.map(({ name }) => ({ server, name })),
    )
  }

  hasServer(server: string): boolean {
    return this.#pinned.has(server)
  }

  has(server: string, kind: DefinitionKind, sha256: string): boolean {
    return this.#pinned.get(server)?.has(`${kind} ${sha256}`) === true
  }

  /** The hashes of the definitions with this name. */
  pinned(server: string, kind: DefinitionKind, name: string): readonly string[] {
    return this.#byName.get(keyOf(server, kind, name)) ?? []
  }

  textOf(sha256: string): string | undefined {
    return this.#texts.get(sha256)
  }

  /** The schema of the arguments of the one tool that a pattern names, with any version. */
  schemaOf(pattern: string): unknown {
    return this.#schemas.get(pattern.replace(/^mcp:\/\//, '').replace(/@[^@/]*$/, ''))
  }
}

function keyOf(server: string, kind: DefinitionKind, name: string): string {
  return JSON.stringify([server, kind, name])
}

export const nothingLocked = new LockedDefinitions({ servers: {} })

/** A file is parsed once for the checks of a policy and its start. */
const parsed = new BoundedMap<string, LockedDefinitions>(4)

/** @throws {LockFileError} with line and column if the file cannot be read */
export function readLockFile(lock: string, baseDir: string): LockedDefinitions {
  const path = resolve(baseDir, lock)
  let text: string
  try {
    if (statSync(path).size > maxBytes) throw new Error(`it has more than ${maxBytes} bytes`)
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    throw new LockFileError(`${lock} cannot be read: ${messageOf(cause)}`, { cause })
  }
  const key = `${path} ${sha256Hex(text)}`
  const known = parsed.get(key)
  if (known !== undefined) return known
  const { value, mistakes } = readDocument(text, lock, lockSchema, 'none')
  if (value === undefined) throw new LockFileError(mistakes.slice(0, 3).map(formatDiagnostic).join(''))
  const locked = new LockedDefinitions(value)
  parsed.set(key, locked)
  return locked
}

const head = `# Definitions that servers may send, written by \`npx svc-sdk tools lock\`. What is not in here is withheld.
version: 1
servers:
`

/**
 * The text of a lock file. Definitions are written as JSON, which YAML contains, one member per line.
 *
 * @throws {LockFileError} if a definition would not be read as it is
 */
export function lockFileText(servers: LockedServers): string {
  const names = Object.keys(servers).sort()
  const text =
    names.length === 0
      ? `${head.trimEnd()} {}\n`
      : head + names.map((name) => serverText(name, servers[name] ?? {})).join('')
  const { value, mistakes } = readDocument(text, 'the lock file', lockSchema, 'none')
  if (value === undefined) throw new LockFileError(mistakes.slice(0, 3).map(formatDiagnostic).join(''))
  if (canonicalizeExact(value.servers).text !== canonicalizeExact(servers).text) {
    throw new LockFileError('the definitions cannot be written so that they are read as they are')
  }
  return text
}

function serverText(name: string, lists: object): string {
  const kinds = Object.entries(lists)
  if (kinds.length === 0) return `  ${JSON.stringify(name)}: {}\n`
  const texts = kinds.map(([kind, definitions]: [string, readonly unknown[]]) => {
    const entries = definitions.map(
      (one) => `      - ${stringifyJson(one, 2).replaceAll('\n', '\n        ')}\n`,
    )
    return `    ${kind}:\n${entries.join('')}`
  })
  return `  ${JSON.stringify(name)}:\n${texts.join('')}`
}
