// A log of leaves in memory that signs checkpoints and proves consistency, and a witness on loopback.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkpointText } from '@svc/plugin-audit/internal/log/format/checkpoint'
import { digestToBase64 } from '@svc/plugin-audit/internal/log/format/digest'
import { consistencyRanges } from '@svc/plugin-audit/internal/log/format/merkle-proof'
import { ED25519_TYPE } from '@svc/plugin-audit/internal/log/format/note'
import { formatVkey, signNote } from '@svc/plugin-audit/internal/log/keys/signatures'
import { LeafRange } from '@svc/plugin-audit/internal/log/merkle/leaf-range'
import { leafHash } from '@svc/plugin-audit/internal/log/merkle/tree-hash'
import { LocalDevSigner } from '@svc/plugin-audit/log'
import { type RunningWitness, startWitness, type WitnessServerOptions } from '@svc/plugin-audit/tools'
import { signer } from '../../writer/records.js'

export const ORIGIN = 'audit.example.com/prod'
export const witnessSigner = (seed: number) => LocalDevSigner.fromSeed(new Uint8Array(32).fill(seed))
export const vkeyOfLog = (origin = ORIGIN, by = signer) => formatVkey(origin, ED25519_TYPE, by.publicKey)

export class MemoryLog {
  readonly #leaf: (index: number) => string

  constructor(leaf: (index: number) => string = (index) => `leaf ${index}`) {
    this.#leaf = leaf
  }

  root(size: number, start = 0) {
    const range = new LeafRange()
    for (let i = start; i < size; i++) range.append(leafHash(Buffer.from(this.#leaf(i))))
    return range.root()
  }

  checkpoint(size: number, by = signer, origin = ORIGIN): Promise<string> {
    return signNote(checkpointText({ origin, size, root: this.root(size) }), origin, [by])
  }

  /** The proof lines. */
  proof(older: number, newer: number): string {
    const roots = consistencyRanges(older, newer).map(({ start, end }) => this.root(end, start))
    return roots.map((digest) => `${digestToBase64(digest)}\n`).join('')
  }

  async request(older: number, newer: number): Promise<string> {
    const proof = older === 0 ? '' : this.proof(older, newer)
    return `old ${older}\n${proof}\n${await this.checkpoint(newer)}`
  }
}

/** Starts witnesses that trust the key of the tests' log, and stops them after each test of the calling suite. */
export function witnesses(dir: { readonly path: string }) {
  const running: RunningWitness[] = []
  afterEach(async () => {
    await Promise.all(running.splice(0).map((witness) => witness.close()))
  })
  return async (
    name: string,
    changes: Partial<WitnessServerOptions> & { readonly trusted?: string } = {},
  ): Promise<RunningWitness> => {
    const { trusted = `# logs\n${vkeyOfLog()}\n`, ...options } = changes
    const logs = join(dir.path, `${name}.logs`)
    writeFileSync(logs, trusted)
    const started = await startWitness({
      dir: join(dir.path, name),
      logs,
      name: `${name}.example/w`,
      signer: witnessSigner(name.length),
      port: 0,
      ...options,
    })
    const witness = { ...started, close: () => close() }
    let closing: Promise<void> | undefined
    const close = () => {
      closing ??= started.close()
      return closing
    }
    running.push(witness)
    return witness
  }
}

export async function post(witness: { readonly url: string }, body: string) {
  const response = await fetch(`${witness.url}/add-checkpoint`, { method: 'POST', body })
  const { status, headers } = response
  return { status, type: headers.get('content-type'), text: await response.text() }
}
