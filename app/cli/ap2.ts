// `svc ap2`: inspects mandates, and issues some for development.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { defined, isJsonObject, parseJson, visibleInLine } from '@svc/core/json'
import {
  bindingFromExample,
  generateLocalKey,
  type Inspection,
  inspectMandates,
  issueMandates,
  type LocalKey,
  localKeyOf,
  type MandateShape,
  mandateShapes,
  type Purchase,
} from '@svc/plugin-ap2/dev'
import { readInput } from '@svc/plugin-audit/tools'
import { Command, Option } from 'commander'
import { type CliIo, processIo } from './io.js'
import { withManual } from './manual.js'
import { parseInstant, wholeNumber } from './option-values.js'

const FAILED = 1

interface InspectCommandOptions {
  readonly audience?: string[]
  readonly issuer?: string[]
  readonly at?: number
  readonly json?: true
}

interface MakeOptions extends PurchaseOptions {
  readonly shape: MandateShape
  readonly keys: string
  readonly audience: string
  readonly subject: string
  readonly life: number
  readonly for?: string
  readonly header?: true
}

export function ap2Command(io: CliIo = processIo()): Command {
  const ap2 = new Command('ap2')
  const inspecting = ap2
    .command('inspect')
    .description('print a mandate or a bundle, and each check with its result')
    .argument('<file>', 'the file, or - for the standard input')
    .option('--issuer <issuer...>', 'accepted issuers; default: the issuer of each mandate')
    .option('--audience <name...>', 'accepted audiences; default: the audience of each mandate')
    .option('--at <time>', 'check as of this time (ISO 8601)', parseInstant)
    .option('--json', 'print JSON')
    .action((file: string, options: InspectCommandOptions) => inspect(file, options, io))
  withManual(inspecting, { example: 'mandate.json', verdicts: ['every check passed', 'a check failed'] })
  const making = ap2
    .command('make')
    .description('issue mandates for a purchase with local keys, for development')
    .addOption(new Option('--shape <shape>', 'shape of the mandates').choices(mandateShapes).default('chain'))
    .option('--keys <file>', 'the keys of issuer and agent; created if it is absent', 'ap2-keys.json')
    .requiredOption('--audience <name>', 'audience: the name of the server in `targets`')
    .requiredOption('--total <amount>', 'total in minor units, such as 1999', wholeNumber(0))
    .option('--currency <code>', 'currency (ISO 4217)', 'USD')
    .option('--merchant <id>', 'id of the merchant', 'merchant_1')
    .requiredOption('--item <item...>', 'items, each an id or id:quantity')
    .option('--instrument <id>', 'id of the payment instrument', 'card_1')
    .option('--subject <name>', 'subject of the mandates', 'user_1')
    .option('--life <seconds>', 'seconds until they expire', wholeNumber(0), 600)
    .option(
      '--for <file>',
      'print the entry of ap2.tools.bind for these example arguments (a JSON file) instead',
    )
    .option('--header', 'print the value of the header x-ap2-bundle')
    .action((options: MakeOptions) => make(options, io))
  withManual(making, { example: '--audience shop --total 1999 --item shoe' })
  return ap2
}

async function inspect(file: string, options: InspectCommandOptions, io: CliIo): Promise<void> {
  const { audience, issuer, at } = options
  const text = String(file === '-' ? readFileSync(0) : await readInput(file, 'mandate'))
  const inspection = await inspectMandates(text, {
    clock: { now: () => at ?? Date.now(), monotonic: () => performance.now() },
    skewSec: 0,
    ...defined({ audiences: audience, issuers: issuer }),
  })
  if (inspection.error !== undefined) io.exit(FAILED)
  const shown = options.json === true ? `${JSON.stringify(inspection, null, 2)}\n` : describe(inspection)
  await io.out(shown)
}

function describe({ mandates, unsignedIntents, error }: Inspection): string {
  const lines = mandates.flatMap(({ shape, tokens, checks }) => [
    `mandate (${shape})`,
    ...tokens.flatMap(({ alg, payload, mandate }, index) => [
      `  token ${index + 1} (${alg}): ${JSON.stringify(payload)}`,
      ...(mandate === undefined ? [] : [`  discloses: ${JSON.stringify(mandate)}`]),
    ]),
    ...checks.map(({ name, result }) => `  ${name.padEnd(12)} ${result}`),
  ])
  const intents = unsignedIntents.map(
    (digest) => `intent without a signature, for information only: ${digest}`,
  )
  const end = error === undefined ? 'every check passed' : `${error.reason}: ${error.detail}`
  return [...lines, ...intents, end].map((line) => `${visibleInLine(line)}\n`).join('')
}

async function make(options: MakeOptions, io: CliIo): Promise<void> {
  const purchase = purchaseOf(options)
  if (options.for !== undefined) {
    const args = parseJson(await readInput(options.for, 'arguments'))
    return io.out(`${JSON.stringify(bindingFromExample(purchase, args), null, 2)}\n`)
  }
  const { issuer, agent, isNew } = localKeys(options.keys)
  if (isNew) io.err(`created ${options.keys}; issuer ${issuer.did}\n`)
  const { shape, audience, subject, life: lifeSec } = options
  const issuedAt = Math.floor(Date.now() / 1000)
  const bundle = await issueMandates(shape, { issuer, agent, purchase, audience, subject, issuedAt, lifeSec })
  const json = JSON.stringify(bundle)
  await io.out(`${options.header === true ? Buffer.from(json).toString('base64url') : json}\n`)
}

interface LocalKeys {
  readonly issuer: LocalKey
  readonly agent: LocalKey
  readonly isNew: boolean
}

/** Creates the file if it is absent, readable by its owner only. @throws {Error} for a file of another form */
function localKeys(path: string): LocalKeys {
  if (!existsSync(path)) {
    const [issuer, agent] = [generateLocalKey('ES256'), generateLocalKey('ES256')]
    const text = JSON.stringify({ issuer: issuer.privateJwk, agent: agent.privateJwk }, null, 2)
    writeFileSync(path, `${text}\n`, { mode: 0o600, flag: 'wx' })
    return { issuer, agent, isNew: true }
  }
  const keys: unknown = JSON.parse(readFileSync(path, 'utf8'))
  if (!isJsonObject(keys) || !isJsonObject(keys['issuer']) || !isJsonObject(keys['agent'])) {
    throw new Error(`${path} does not have the keys issuer and agent`)
  }
  return { issuer: localKeyOf(keys['issuer']), agent: localKeyOf(keys['agent']), isNew: false }
}

interface PurchaseOptions {
  readonly total: number
  readonly currency: string
  readonly merchant: string
  readonly item: readonly string[]
  readonly instrument: string
}

/** @throws {Error} for an item of another form */
function purchaseOf({ total, currency, merchant, item, instrument }: PurchaseOptions): Purchase {
  const items = item.map((text) => {
    const [, id, quantity = '1'] = /^(.+?)(?::([1-9]\d{0,6}))?$/.exec(text) ?? []
    if (id === undefined) throw new Error(`--item ${text}: expected an id, or id:quantity`)
    return { id, title: id, quantity: Number(quantity) }
  })
  return {
    total,
    currency,
    merchant: { id: merchant, name: merchant },
    items,
    instrument: { id: instrument, type: 'card' },
  }
}
