// Reads a target of a command line: the URL of a server, or its command.
import { formatNameSegment, parseNameSegment } from '@svc/core/match'
import { commandTarget, serverNameOf } from '../../stdio/gateway/command-target.js'
import type { PresetCommand } from './preset-policy.js'

/** A server to govern, and its name in references and records. */
export interface NamedTarget {
  readonly name: string
  readonly target: string | PresetCommand
}

/** Reads `[NAME=]URL` or `[NAME=]COMMAND ARGS`. Throws an error with the reason. */
export function parseTarget(text: string, env: readonly string[]): NamedTarget {
  const [, name, rest = ''] = /^(?:([\w-]+)=)?(.*)$/s.exec(text.trim()) ?? []
  return targetOfWords(wordsOfCommand(rest), { name, env, howToName: `write --target NAME='${rest}'` })
}

/**
 * The target of a command and its arguments, or of a URL alone. `env` has the names of the variables that the command
 * gets, `howToName` what to do about a name that the target does not tell. Throws an error with the reason.
 */
export function targetOfWords(
  [first = '', ...args]: readonly string[],
  { name, env, howToName }: { name: string | undefined; env: readonly string[]; howToName: string },
): NamedTarget {
  if (first === '') throw new Error('the target is empty; give the URL of a server, or its command')
  const isUrl = /^(?:mcp\+)?https?:\/\//i.test(first)
  if (isUrl && args.length > 0) throw new Error(`${first} is a URL, and has no arguments`)
  const named = name ?? (isUrl ? nameOfUrl(first) : serverNameOf(first, args))
  if (named === undefined) throw new Error(`${first} does not name the server: ${howToName}`)
  return {
    name: parseNameSegment(formatNameSegment(named)),
    target: isUrl ? first : commandTarget({ command: first, args, env }),
  }
}

/** `mcp.example.com` becomes `example-com`, a port of this machine `server-3001`. */
function nameOfUrl(url: string): string | undefined {
  const { hostname, port } = new URL(url.replace(/^mcp\+/i, ''))
  if (hostname === 'localhost' || /^[\d.]+$|^\[/.test(hostname)) return `server-${port || '80'}`
  return hostname.replace(/^(?:mcp|www)\.(?=.*\.)/, '').replaceAll(/[^\w-]/g, '-')
}

/** Splits a command as a shell does: at white space, but for quoted parts. Throws for a quote that does not end. */
function wordsOfCommand(text: string): string[] {
  const words = text.match(/(?:[^\s'"]|'[^']*'|"[^"]*")+/g) ?? []
  if (words.join('').length !== text.replaceAll(/('[^']*'|"[^"]*")|\s/g, '$1').length) {
    throw new Error(`a quote does not end in: ${text}`)
  }
  return words.map((word) => word.replaceAll(/'([^']*)'|"([^"]*)"/g, '$1$2'))
}
