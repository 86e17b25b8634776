// Empty: c10d includes this header of Gloo, see context.h, and uses nothing of it.
#pragma once
