// The completion scripts, in the shells that they are for.
import { execFileSync, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { completedCommands } from 'svc-sdk/internal/cli/completion/commands'
import { programFor } from 'svc-sdk/internal/cli/program'
import { runSvc } from '../../support/command.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

const zshMatches = fileURLToPath(new URL('../../../fixtures/completion/zsh-matches.zsh', import.meta.url))
const commands = completedCommands(await programFor())

/** What is typed before TAB, and what the shell offers. */
const rows: [line: string, offered: string[]][] = [
  ['svc au', ['audit']],
  ['svc-sdk audit sh', ['show']],
  ['svc audit show --format ', ['ecs', 'json', 'ocsf', 'table']],
  ['svc policy explain p.yaml --expect e', ['escalate']],
  ['svc policy check pol', ['policy.yaml']],
  ['svc gateway --policy pol', ['policy.yaml']],
  ['svc audit verify --origin audit sh', []],
  ['svc completion ', ['bash', 'fish', 'zsh']],
]
/** Every command, with all its options or subcommands. */
const ofCommands = commands
  .filter(({ path }) => path !== 'control-plane')
  .flatMap(({ path, options, subcommands }): typeof rows => {
    const line = path === '' ? 'svc ' : `svc ${path} `
    const own: (typeof rows)[number] = [`${line}--`, options.map(({ name }) => name)]
    return subcommands.length === 0 ? [own] : [own, [line, subcommands.map(({ name }) => name)]]
  })

const linesOf = (text: string): string[] => text.split('\n').filter((line) => line !== '')

/** What the shells print for each line. */
const shells = {
  bash(script: string, lines: readonly string[], cwd: string): string[][] {
    const asked = lines.map((line) => {
      const words = line.split(' ')
      return `COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}
complete() { :; }; _svc; [[ \${#COMPREPLY[@]} -gt 0 || $line ]] && printf '%s\\n' "\${COMPREPLY[@]}"
# Without a reply, readline completes paths, unless the script takes that away.
[[ \${#COMPREPLY[@]} -eq 0 && $defaults ]] && compgen -f -- "\${COMP_WORDS[COMP_CWORD]}"
printf '%s\\n' ----; defaults=1`
    })
    const program = `compopt() { defaults=; }; defaults=1; source ${script}\n${asked.join('\n')}`
    const printed = execFileSync('bash', ['--norc', '-c', program], { cwd, encoding: 'utf8' })
    return printed.split('----\n').slice(0, -1).map(linesOf)
  },
  fish(script: string, lines: readonly string[], cwd: string): string[][] {
    const asked = lines.map((line) => `complete -C '${line}'; echo ----`)
    const program = `source ${script}\n${asked.join('\n')}`
    const printed = execFileSync('fish', ['--no-config', '-c', program], { cwd, encoding: 'utf8' })
    const offered = printed.split('----\n').slice(0, -1)
    return offered.map((text) => linesOf(text).map((line) => line.replace(/\t.*$/, '')))
  },
  zsh(script: string, lines: readonly string[], cwd: string): string[][] {
    return lines.map((line) =>
      linesOf(
        execFileSync('zsh', ['-f', zshMatches, script, line], { cwd, encoding: 'utf8', timeout: 20_000 }),
      ),
    )
  },
}

describe('svc completion', function () {
  this.timeout(60_000)

  for (const [shell, offersOf] of Object.entries(shells)) {
    const isInstalled = spawnSync(shell, ['--version']).status === 0
    const test = isInstalled ? it : it.skip
    test(`completes commands, options and values in ${shell}${isInstalled ? '' : `: skipped, ${shell} is not installed`}`, async () => {
      using dir = new TemporaryDir()
      const script = join(dir.path, 'script')
      writeFileSync(script, (await runSvc('completion', shell)).out)
      writeFileSync(join(dir.path, 'policy.yaml'), '')
      // Each line takes zsh a terminal of its own.
      const all = shell === 'zsh' ? rows : [...rows, ...ofCommands]
      const offered = offersOf(
        script,
        all.map(([line]) => line),
        dir.path,
      )
      const seen = all.map(([line], index) => [line, offered[index]?.toSorted()])
      expect(seen).to.deep.equal(all.map(([line, wanted]) => [line, wanted.toSorted()]))
    })
  }
})
