// `svc keys`: makes signing keys, and changes those that a log trusts.
import { createPublicKey } from 'node:crypto'
import { generateKeyFile, publicKeyLine, revokeKey, rotateKey } from '@svc/plugin-audit/log'
import { vkeyOf } from '@svc/plugin-audit/tools'
import { Command, Option } from 'commander'
import { signerIn } from './audit-files.js'
import { type LogPlace, logOf, withLog, withPlugin } from './audit-options.js'
import { type CliIo, processIo } from './io.js'
import { withManual } from './manual.js'
import { parseInstant, wholeNumber } from './option-values.js'

interface SignerOptions {
  readonly plugin?: string
}

interface RotateOptions extends SignerOptions {
  readonly from: string
  readonly to: string
  readonly retire?: boolean
}

interface RevokeOptions extends SignerOptions {
  readonly keyId: string
  readonly signWith: string
  readonly leaf?: number
  readonly since?: number
}

export function keysCommand(io: CliIo = processIo()): Command {
  const keys = new Command('keys')
  const generating = keys
    .command('generate')
    .description('write a fresh Ed25519 key, readable by its owner only')
    .requiredOption('--out <file>', 'the file to write; an existing one is never overwritten')
    .action(({ out }: { out: string }) => generate(out, io))
  withManual(generating, { example: '--out .svc/signing.key' })
  const showing = withPlugin(keys.command('public'))
    .description('print the public key of a signing key, in a form that verifiers take')
    .argument('<key>', 'the signing key: a file, file://PATH, or what --plugin opens')
    .addOption(new Option('--format <format>', 'the form').choices(keyForms).default('line'))
    .option('--origin <origin>', 'the log for which the key signs, with --format vkey')
    .action((key: string, options: PublicOptions) => showPublic(key, options, io))
  withManual(showing, { example: '.svc/signing.key > keys.txt' })
  const rotating = withPlugin(withLog(keys.command('rotate')))
    .description('let a log trust another key; both are valid until the old one is retired')
    .requiredOption('--from <key>', 'the signing key that the log trusts: a file or a reference')
    .requiredOption('--to <key>', 'the signing key that enters')
    .option('--retire', 'stop trusting the old key now; its writers must have stopped')
    .action(async (dir: string | undefined, { policy, ...options }: RotateOptions & LogPlace) =>
      rotate(await logOf(dir, policy), options, io),
    )
  withManual(rotating, { example: '.svc/audit --from old.key --to new.key' })
  const revoking = withPlugin(withLog(keys.command('revoke')))
    .description('stop trusting a key: from now on, from a leaf on, or from an instant on')
    .requiredOption('--key-id <id>', 'the key, ed25519:<sha256>')
    .requiredOption('--sign-with <key>', 'another signing key that the log trusts')
    .option('--leaf <n>', 'the first leaf of the log that the key may not sign', wholeNumber(0))
    .option('--since <instant>', 'what was sealed at this ISO 8601 instant or later', parseInstant)
    .action(async (dir: string | undefined, { policy, ...options }: RevokeOptions & LogPlace) =>
      revoke(await logOf(dir, policy), options, io),
    )
  withManual(revoking, { example: '.svc/audit --key-id ed25519:5f0c… --sign-with new.key' })
  return keys
}

async function generate(path: string, io: CliIo): Promise<void> {
  const key = generateKeyFile(path)
  await io.out(`key id      ${key.keyId}\npublic key  ${key.publicKey}\n`)
}

/** As `--keys` takes it, its id, as OpenSSL and JOSE take it, and a verifier key of c2sp.org/signed-note. */
const keyForms = ['line', 'id', 'pem', 'jwk', 'vkey'] as const

interface PublicOptions extends SignerOptions {
  readonly format: (typeof keyForms)[number]
  readonly origin?: string
}

async function showPublic(ref: string, { format, origin, plugin }: PublicOptions, io: CliIo): Promise<void> {
  const { publicKey, keyId } = await signerIn(ref, plugin)
  if ((format === 'vkey') !== (origin !== undefined))
    throw new Error('--format vkey and --origin go together')
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(publicKey).toString('base64url') }
  const forms = {
    line: () => `${publicKeyLine(publicKey)}\n`,
    id: () => `${keyId}\n`,
    pem: () => String(createPublicKey({ key: jwk, format: 'jwk' }).export({ format: 'pem', type: 'spki' })),
    jwk: () => `${JSON.stringify({ ...jwk, kid: keyId })}\n`,
    vkey: async () => `${await vkeyOf(origin ?? '', publicKey)}\n`,
  }
  await io.out(await forms[format]())
}

async function rotate(dir: string, options: RotateOptions, io: CliIo): Promise<void> {
  const { from, to, retire = false, plugin } = options
  const [old, next] = await Promise.all([signerIn(from, plugin), signerIn(to, plugin)])
  await rotateKey(dir, { from: old, to: next, retire })
  await io.out(
    `the log trusts ${next.keyId}${retire ? `, and no longer ${old.keyId}` : ` and ${old.keyId}`}\n`,
  )
}

async function revoke(dir: string, options: RevokeOptions, io: CliIo): Promise<void> {
  const { keyId, signWith, plugin, ...place } = options
  const leaf = await revokeKey(dir, await signerIn(signWith, plugin), { keyId, ...place })
  await io.out(`${keyId} is not trusted from leaf ${leaf} on\n`)
}
