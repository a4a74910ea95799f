// The completion script of zsh.
import { type CompletedCommand, type CompletedValue, programNames } from './commands.js'

export function zshScript(commands: readonly CompletedCommand[]): string {
  return `#compdef ${programNames.join(' ')}
# Completion of svc and svc-sdk, made by \`svc completion zsh\`.
_svc() {
  local at= word
  local -a names options
  for word in "\${(@)words[2,CURRENT-1]}"; do
    [[ $word == -- ]] && { _normal; return }
    case "\${at:+$at }$word" in
      (${commands
        .slice(1)
        .map(({ path }) => quoted(path))
        .join('|')}) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at \${words[CURRENT-1]}" in
${commands.flatMap(optionValues).join('\n')}
  esac
  case "$at" in
${commands.map(wordsOf).join('\n')}
  esac
}
if [[ $funcstack[1] == _svc ]]; then _svc "$@"; else compdef _svc ${programNames.join(' ')}; fi
`
}

function optionValues({ path, options }: CompletedCommand): string[] {
  return options.flatMap(({ name, value }) =>
    value === undefined ? [] : `    (${quoted(`${path} ${name}`)}) ${offersOf(value)}; return ;;`,
  )
}

function wordsOf({ path, subcommands, options, argument }: CompletedCommand): string {
  const flags = `options=(${described(options)}); _describe -o option options`
  const others =
    subcommands.length > 0 ? `names=(${described(subcommands)}); _describe command names` : offersOf(argument)
  return `    (${quoted(path)}) if [[ $PREFIX == -* ]]; then ${flags}; else ${others}; fi ;;`
}

function offersOf({ kind, choices }: CompletedValue): string {
  if (kind === 'choice') return `compadd -- ${choices.map(quoted).join(' ')}`
  return kind === 'path' ? '_files' : ':'
}

function described(words: readonly { readonly name: string; readonly description: string }[]): string {
  return words.map(({ name, description }) => quoted(`${name}:${description}`)).join(' ')
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
