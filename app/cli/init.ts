// `svc init`: puts the MCP servers of the user's clients behind a policy, and takes that back.
import { realpathSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { visibleInLine } from '@svc/core/json'
import { formatDiagnostic, policySchema } from '@svc/core/policy'
import { Command, Option } from 'commander'
import { applyPlan, fileNames } from '../init/apply.js'
import type { ClientMachine } from '../init/clients/clients.js'
import { readIfPresent } from '../init/files.js'
import { type ClientConfiguration, findConfigurations } from '../init/find.js'
import { InitError, JournalFile } from '../init/journal.js'
import { Packages, packageOf, packagesDirectory } from '../init/packages.js'
import { type Candidate, candidatesOf, type PlannedEntry, planEntries } from '../init/plan.js'
import { clientsOf, findingLines, pathForUser, planLines } from '../init/report.js'
import { whyUnreachable } from '../init/sign-in.js'
import { applyUndo, planUndo } from '../init/undo.js'
import { hostSchema } from '../policy/config.js'
import { builtinPlugins, sectionRules } from '../policy/plugins.js'
import { type Preset, presets } from '../policy/presets/preset-policy.js'
import { knownDirectories } from '../policy/presets/preset-start.js'
import { type CliIo, type Environment, processIo } from './io.js'
import { withManual } from './manual.js'
import { collectValue } from './option-values.js'
import { launcher, ownCommand } from './own-command.js'
import { diagnosticsOf, loadPolicyFile } from './policy-file.js'

/** Nothing was changed, so that `svc init && …` does not go on. */
const NOT_DONE = 1

interface InitOptions {
  readonly yes?: true
  readonly yesTo?: readonly string[]
  readonly dir: string
  readonly preset: Preset
  readonly undo?: true
}

/** Asks at the terminal; undefined if there is none. */
export type Ask = ((question: string) => Promise<string>) | undefined

export function initCommand(
  io: CliIo = processIo(),
  env: Environment = process.env,
  ask: Ask = terminal(),
): Command {
  const command = new Command('init')
    .option('--yes', 'change the configurations of the user without asking')
    .option(
      '--yes-to <file>',
      'include the servers of a configuration in this directory, such as .vscode/mcp.json; may be repeated',
      collectValue,
    )
    .option('--dir <dir>', 'the directory of the policy', '.')
    .addOption(new Option('--preset <name>', 'what the policy does').choices(presets).default('observe'))
    .option('--undo', 'put back what init changed')
    .action(async (options: InitOptions) => {
      const machine = { env, platform: process.platform, dir: realpathSync(resolve(options.dir)) }
      try {
        await new Init(machine, options, io, ask)[options.undo === true ? 'undo' : 'run']()
      } catch (error) {
        if (!(error instanceof Error)) throw error
        const state = options.undo === true ? '' : 'Nothing was changed.\n'
        io.err(`svc-sdk init: ${error.message}\n${state}`)
        io.exit(NOT_DONE)
      }
    })
  return withManual(command, { example: '--yes --preset observe' })
}

class Init {
  readonly #machine: ClientMachine
  readonly #options: InitOptions
  readonly #io: CliIo
  readonly #ask: Ask
  readonly #journalFile: JournalFile

  constructor(machine: ClientMachine, options: InitOptions, io: CliIo, ask: Ask) {
    this.#machine = machine
    this.#options = options
    this.#io = io
    this.#ask = options.yes === true ? undefined : ask
    this.#journalFile = new JournalFile(join(machine.dir, fileNames.state))
  }

  async run(): Promise<void> {
    const { dir } = this.#machine
    const journal = this.#journalFile.read()
    const policy = join(dir, fileNames.policy)
    if (journal === undefined && readIfPresent(policy) !== undefined) {
      throw new InitError(`${policy} exists, and init did not write it; --dir names another directory`)
    }
    const files = findConfigurations(this.#machine)
    const candidates = candidatesOf(files)
    const inPolicy = journal === undefined ? [] : await serversIn(policy, this.#machine.env)
    const known = Object.fromEntries(
      Object.entries(journal?.servers ?? {}).filter(([name]) => inPolicy.includes(name)),
    )
    const taken = [...inPolicy, ...Object.keys(journal?.servers ?? {})]
    using packages = new Packages(this.#machine.env)
    const plan = (chosen: readonly Candidate[]) => {
      const programs = new Map([...packages.installed].map(([spec, { program }]) => [spec, program]))
      const place = { launcher: launcher(), policy, stateDir: fileNames.state }
      return planEntries(chosen, { ...place, taken, known, programs })
    }
    for (const path of this.#options.yesTo ?? []) {
      const isKnown = files.some(({ file, isOfDirectory }) => isOfDirectory && file === resolve(dir, path))
      if (!isKnown) throw new InitError(`--yes-to: ${path} is not a configuration in this directory`)
    }
    const allowed = candidates.filter((candidate) => this.#isAllowed(candidate))
    const others = candidates.filter((candidate) => !allowed.includes(candidate))
    const found = { files, entries: plan(allowed), others, isAsked: this.#ask !== undefined }
    await this.#print(findingLines(found, this.#machine))
    const confirmed = await this.#confirmed(others)
    const chosen = candidates.filter((candidate) => allowed.includes(candidate) || confirmed.has(candidate))
    if (chosen.length === 0) return this.#nothing(files.some(isGoverned))
    await this.#print(planLines(plan(chosen), this.#options.preset, journal === undefined))
    if (!(await this.#agreed('Apply?', `${ownCommand()} init --yes`))) return
    const entries = plan(await this.#installable(await this.#reachable(chosen), packages))
    if (entries.length === 0) return this.#nothing(false)
    await applyPlan({
      dir,
      journalFile: this.#journalFile,
      journal,
      entries,
      packages: packages.installed,
      preset: this.#options.preset,
      place: { port: 8787, user: userInfo().username, directories: directoriesOf(dir, entries) },
      schema: `${JSON.stringify(policySchema(hostSchema, builtinPlugins, sectionRules.required), null, 2)}\n`,
      checkPolicy: (file) => mistakesIn(file, this.#machine.env),
    })
    await this.#print([
      `Done: ${clientsOf(entries)}. Restart these clients.`,
      'Their calls are decided by svc.yaml and recorded; to see them, to test the policy, to go back:',
      `  ${ownCommand()} audit show ${fileNames.log} --format table --follow`,
      `  ${ownCommand()} policy test ${fileNames.test}`,
      `  ${ownCommand()} init --undo`,
      ...hintsOf(this.#machine.env),
    ])
  }

  async undo(): Promise<void> {
    const journal = this.#journalFile.read()
    if (journal === undefined)
      throw new InitError(`there is nothing to undo in ${this.#machine.dir}; --dir names another directory`)
    const undo = planUndo(journal, this.#journalFile, this.#machine)
    if (undo.conflicts.length > 0) {
      throw new InitError(
        `cannot tell what to take back, and changed nothing:\n${undo.conflicts.join('\n')}\nThe former files are in ${this.#journalFile.directory}.`,
      )
    }
    const shown = [...undo.contents.keys()].map((file) => pathForUser(file, this.#machine))
    const listed = [fileNames.state, packagesDirectory]
    const removedFiles = [
      ...undo.removed.filter((name) => !listed.some((directory) => name.startsWith(`${directory}/`))),
      ...undo.packages,
    ]
    await this.#print([
      `Would put back  ${shown.join(', ') || 'no configuration'}`,
      `Would remove    ${removedFiles.join(', ') || 'no policy'}, and what init wrote to ${fileNames.state}/`,
      ...undo.kept.map((line) => `Stays           ${line}`),
    ])
    if (!(await this.#agreed('Undo?', `${ownCommand()} init --undo --yes`))) return
    applyUndo(undo, this.#journalFile, this.#machine.dir)
    await this.#print(['Done. Restart the clients.'])
  }

  /** Whether an option or the place of its file says that an entry may be changed. */
  #isAllowed({ file }: Candidate): boolean {
    const named = this.#options.yesTo?.map((path) => resolve(this.#machine.dir, path)) ?? []
    return !file.isOfDirectory || named.includes(file.file)
  }

  /** Servers of the directory's configurations are another's, and each needs a yes of its own. */
  async #confirmed(candidates: readonly Candidate[]): Promise<Set<Candidate>> {
    const confirmed = new Set<Candidate>()
    for (const candidate of this.#ask === undefined ? [] : candidates) {
      const { file, found } = candidate
      const question = `Include ${found.name} of ${pathForUser(file.file, this.#machine)}, which may be another's?`
      if (await this.#isYes(visibleInLine(question))) confirmed.add(candidate)
    }
    return confirmed
  }

  /** A server over HTTP without a key in its entry is asked whether it wants a sign-in. */
  async #reachable(candidates: readonly Candidate[]): Promise<Candidate[]> {
    const reasons = await Promise.all(
      candidates.map(({ entry }) =>
        entry.kind === 'url' && entry.header === undefined ? whyUnreachable(entry.url) : undefined,
      ),
    )
    return this.#without(reasons, candidates)
  }

  /** Packages that npx would fetch are installed with a lock file. */
  async #installable(candidates: readonly Candidate[], packages: Packages): Promise<Candidate[]> {
    const reasons: (string | undefined)[] = []
    for (const { entry } of candidates) {
      const spec = packageOf(entry)
      reasons.push(spec === undefined ? undefined : await packages.install(spec))
    }
    return this.#without(reasons, candidates)
  }

  /** The candidates that nothing speaks against; says why others are left alone. */
  #without(reasons: readonly (string | undefined)[], candidates: readonly Candidate[]): Candidate[] {
    return candidates.filter(({ file, found }, index) => {
      const reason = reasons[index]
      if (reason !== undefined)
        this.#io.err(`${visibleInLine(`${file.client}: ${found.name} is left alone: ${reason}`)}\n`)
      return reason === undefined
    })
  }

  async #nothing(isGoverned: boolean): Promise<void> {
    if (isGoverned) return this.#print(['Nothing to change.'])
    await this.#print(['There is no server to put behind a policy. Nothing was changed.'])
    this.#io.exit(NOT_DONE)
  }

  async #agreed(question: string, command: string): Promise<boolean> {
    if (this.#options.yes === true) return true
    if (this.#ask !== undefined && (await this.#isYes(question))) return true
    const hint = this.#ask === undefined ? ` ${command} applies it.` : ''
    await this.#print([`Nothing was changed.${hint}`])
    this.#io.exit(NOT_DONE)
    return false
  }

  async #isYes(question: string): Promise<boolean> {
    return /^y(?:es)?$/i.test(((await this.#ask?.(`${question} [y/N] `)) ?? '').trim())
  }

  #print(lines: readonly string[]): Promise<void> {
    return this.#io.out(lines.map((line) => `${line}\n`).join(''))
  }
}

function isGoverned({ entries }: ClientConfiguration): boolean {
  return entries.some(({ entry }) => entry.kind === 'governed')
}

/** Variables with which programs reach the network, keys and containers, if their user has set them. */
const commonVariables =
  /^(?:(?:https?|all|no)_proxy|node_extra_ca_certs|ssl_cert_file|docker_host|ssh_auth_sock|display)$/i

function hintsOf(env: Environment): string[] {
  const [first, ...others] = Object.keys(env).filter((name) => commonVariables.test(name))
  const also = others.length === 0 ? '' : `, and so for ${others.join(', ')}`
  return [
    ...(first === undefined
      ? []
      : [
          `A server that needs ${first} gets it by \`${first}: env:${first}\` in its env in svc.yaml${also}.`,
        ]),
    ...(launcher().args.some((path) => path.includes('_npx'))
      ? [
          "The entries start svc-sdk from npx's cache, which may be cleared: better install it, --undo, and run init again.",
        ]
      : []),
  ]
}

/** The names of servers in the policy that an earlier run wrote. */
async function serversIn(policy: string, env: Environment): Promise<string[]> {
  if (readIfPresent(policy) === undefined) {
    throw new InitError(`${policy} is gone, and entries name it; --undo puts them back`)
  }
  const result = await loadPolicyFile(policy, env, false)
  if (result.ok) return Object.keys(result.policy.host.targets)
  throw new InitError(`${policy} has mistakes:\n${result.mistakes.map(formatDiagnostic).join('\n')}`)
}

/** The directories that arguments of tools may name: that of the policy, and those that the servers were given. */
function directoriesOf(dir: string, entries: readonly PlannedEntry[]): string[] {
  const targets = entries.flatMap(({ server: { target } }) => (target === undefined ? [] : [target]))
  const { directories, root } = knownDirectories(targets, dir)
  return root === undefined ? [...directories] : [...new Set([root, ...directories])]
}

async function mistakesIn(file: string, env: Environment): Promise<string[]> {
  const result = await loadPolicyFile(file, env, true)
  return diagnosticsOf(result).flatMap((diagnostic) =>
    diagnostic.severity === 'mistake' ? [formatDiagnostic(diagnostic)] : [],
  )
}

function terminal(): Ask {
  if (process.stdin.isTTY !== true || process.stdout.isTTY !== true) return undefined
  return async (question) => {
    const lines = createInterface({ input: process.stdin, output: process.stdout })
    try {
      // If the input ends, nobody has agreed.
      const ended = new Promise<string>((resolve) => lines.once('close', () => resolve('')))
      return await Promise.race([lines.question(question), ended])
    } finally {
      lines.close()
    }
  }
}
