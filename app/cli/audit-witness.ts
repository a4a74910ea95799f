// `svc audit witness`: runs a witness until SIGTERM or SIGINT.
import { join } from 'node:path'
import { visibleInLine } from '@svc/core/json'
import { startWitness } from '@svc/plugin-audit/tools'
import { signerIn } from './audit-files.js'
import type { CliIo } from './io.js'

export interface WitnessArguments {
  readonly dir: string
  readonly key: string
  readonly port: number
  readonly host: string
  readonly name?: string
  readonly logs?: string
  readonly plugin?: string
}

const NAME_DIGITS = 16

export async function runWitness(options: WitnessArguments, io: CliIo): Promise<void> {
  const { dir, key, port, host, logs = join(dir, 'logs') } = options
  const signer = await signerIn(key, options.plugin)
  const name = options.name ?? defaultName(signer.keyId)
  const report = (message: string) => io.err(`svc-sdk audit witness: ${visibleInLine(message)}\n`)
  const witness = await startWitness({
    dir,
    logs,
    name,
    signer,
    port,
    host,
    onFork: (origin, why) => report(`${origin}: a fork, ${why}`),
    onError: (error) => report(error.message),
  })
  const ended = new Promise<void>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve())
  })
  await io.out(`key ${witness.vkey}\nlistening on ${witness.url}\n`)
  await ended
  await witness.close()
}

function defaultName(keyId: string): string {
  return `svc-witness.invalid/${keyId.slice(keyId.indexOf(':') + 1).slice(0, NAME_DIGITS)}`
}
