// The colours that the user chose on a page.
import type { Theme } from './api.js'

/** Undefined: the browser's choice. */
export function themeOf(cookie = ''): Theme | undefined {
  const [, theme] = /(?:^|; )svc-theme=(light|dark)(?:;|$)/.exec(cookie) ?? []
  return theme === 'light' || theme === 'dark' ? theme : undefined
}
