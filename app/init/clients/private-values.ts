// Decides which values of a configuration stay out of a policy, because they are secrets or may be. In doubt a value is
// kept out: it costs a file, and nothing else.

import { existsSync } from 'node:fs'
import { isAbsolute } from 'node:path'
import { isUrl } from '@svc/core/json'
import { detectPii, personalDataKinds } from '@svc/core/pii'
import { isKeyReference } from '@svc/core/policy'

const switches = 'true|false|yes|no|on|off|null|none|auto|default|enabled|disabled'
const levels = 'debug|info|warn|warning|error|trace|silent|verbose|production|development|test|staging|local'
const forms = 'json|text|stdio|http|https|utf-?8|[a-z]{2}[_-][A-Z]{2}(?:\\.UTF-8)?|\\d{1,5}'
const plainWord = new RegExp(`^(?:${switches}|${levels}|${forms})$`, 'i')

/** Whether a reference gives the value back as it is: it is read without white space around it, and has a limit. */
export function keepable(value: string): boolean {
  return value !== '' && value.trim() === value && !value.includes('\0') && Buffer.byteLength(value) <= 16_384
}

/** The value of a variable or a header. */
export function isPrivateValue(name: string, value: string): boolean {
  if (value === '') return false
  if (isDetected(`${name}=${value}`) || readsAsReference(value)) return true
  return !plainWord.test(value) && !isPlainPath(value) && !isOrigin(value)
}

/** An argument of a command, after `previous`. */
export function isPrivateArgument(argument: string, previous: string | undefined): boolean {
  if (!keepable(argument)) return false
  if (isDetected(argument) || /^\$\{/.test(argument)) return true
  const assigned = /^(?:-e)?([A-Z_][A-Z0-9_]*)=(.*)$/s.exec(argument)
  if (assigned !== null) return isPrivateValue(assigned[1] ?? '', assigned[2] ?? '')
  if (isPlainPath(argument)) return false
  if (previous?.startsWith('-') === true && !argument.startsWith('-')) {
    if (/^(?:-H|--headers?)$/.test(previous) || isDetected(`${previous} ${argument}`)) return true
  }
  return isToken(argument) || hasQuery(argument)
}

function isDetected(text: string): boolean {
  return detectPii(text).some(({ kind }) => !(personalDataKinds as readonly string[]).includes(kind))
}

/** In a policy this would be read from somewhere else. */
function readsAsReference(value: string): boolean {
  return isKeyReference(value) || value.includes('${')
}

function isPlainPath(value: string): boolean {
  return isAbsolute(value) && existsSync(value)
}

/** A URL of a host alone: paths and queries of webhooks and databases have secrets. */
function isOrigin(value: string): boolean {
  if (!/^https?:\/\//.test(value) || !isUrl(value)) return false
  const { username, password, pathname, search, hash } = new URL(value)
  return `${username}${password}${search}${hash}` === '' && pathname === '/'
}

function hasQuery(value: string): boolean {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(value) || !isUrl(value)) return false
  const { username, password, search, hash } = new URL(value)
  return `${username}${password}${search}${hash}` !== ''
}

/** A run of letters and digits as keys have it; packages, paths and options are not. */
function isToken(value: string): boolean {
  return /^[\w+=~-]{20,}$/.test(value) && /\d/.test(value) && /[A-Za-z]/.test(value) && !value.startsWith('-')
}
