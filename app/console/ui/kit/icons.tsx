// The icons, 16 pixels wide, drawn with the colour of the text.
import type { ComponentChildren, JSX } from 'preact'

function Icon({ children }: { readonly children: ComponentChildren }): JSX.Element {
  return (
    <svg
      class="icon"
      viewBox="0 0 16 16"
      width="16"
      height="16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.5"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      {children}
    </svg>
  )
}

export const ApprovalsIcon = () => (
  <Icon>
    <path d="M8 1.8 13.5 4v4c0 3.2-2.3 5.3-5.5 6.2C4.8 13.3 2.5 11.2 2.5 8V4z" />
    <path d="m5.7 8 1.7 1.7 3-3.2" />
  </Icon>
)
export const LiveIcon = () => (
  <Icon>
    <path d="M1.5 8h3l2-5 3 10 2-5h3" />
  </Icon>
)
export const ServersIcon = () => (
  <Icon>
    <circle cx="3" cy="8" r="1.5" />
    <circle cx="13" cy="3.5" r="1.5" />
    <circle cx="13" cy="12.5" r="1.5" />
    <path d="M4.5 7.5 11.5 4M4.5 8.5l7 3.5" />
  </Icon>
)
export const PolicyIcon = () => (
  <Icon>
    <path d="M4 1.500h5.500L13 5v9.500H4zM9.5 1.500V5H13" />
    <path d="M6.5 8.500h4M6.5 11h4" />
  </Icon>
)
export const LogIcon = () => (
  <Icon>
    <path d="M2.5 3.500h11v3h-11zM2.5 9.500h11v3h-11z" />
    <path d="M5 5h.01M5 11h.01" />
  </Icon>
)
export const OverviewIcon = () => (
  <Icon>
    <path d="M2 13.500h12M3.5 11V8M6.5 11V4.500M9.5 11V6.500M12.5 11V3" />
  </Icon>
)
export const ThemeIcon = () => (
  <Icon>
    <circle cx="8" cy="8" r="5.5" />
    <path d="M8 2.500v11a5.5 5.5 0 0 0 0-11z" fill="currentColor" />
  </Icon>
)
