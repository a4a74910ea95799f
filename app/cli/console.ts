// `svc console`: the pages of the console from this installation, for a gateway elsewhere.
import { readWitnessKeys } from '@svc/plugin-audit/tools'
import { Command } from 'commander'
import { LocalConsole } from '../console/local-console.js'
import { type AdminFlags, adminClientOf, withAdminOptions } from './admin-options.js'
import { type CliIo, processIo } from './io.js'
import { withManual } from './manual.js'
import { portOf } from './option-values.js'

const DEFAULT_PORT = 8793

interface ConsoleFlags extends AdminFlags {
  readonly port: number
  readonly witnessKeys?: string
}

export function consoleCommand(io: CliIo = processIo(), ended: () => Promise<void> = untilSignal): Command {
  const command = withAdminOptions(new Command('console'), { json: false })
    .description('serve the pages of the console from this installation, until SIGTERM or SIGINT')
    .option(
      '--port <n>',
      'the port on this machine, for which browsers keep heads of logs',
      portOf,
      DEFAULT_PORT,
    )
    .option('--witness-keys <file>', 'verifier keys of witnesses, with which the pages check cosignatures')
    .action(async ({ port, witnessKeys: file, ...flags }: ConsoleFlags) => {
      const client = await adminClientOf(flags, process.env)
      // Only lines that are keys are for a page.
      const keys = file === undefined ? undefined : await readWitnessKeys(file)
      const witnessKeys = keys?.map(({ vkey }) => vkey).join('\n')
      const local = new LocalConsole(client, { witnessKeys })
      const link = await local.listen(port)
      await io.out(
        `Open ${link}\nThe link works once. The pages are of this installation, the data of ${client.origin}.\n`,
      )
      await ended()
      await local.close()
    })
  return withManual(command, { example: '--admin https://gateway.example.com:9090' })
}

function untilSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve())
  })
}
